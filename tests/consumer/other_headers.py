#!/usr/bin/env python3
"""usage: other_headers.py INCLUDE OLDER NEWER

Writes the public headers as other versions of clattn might have them: in OLDER every struct that begins with
struct_size has lost fields at its end, in NEWER it has one more. As no version lets a struct end in padding, so many
fields are cut that the rest ends whole; pointers and 64-bit fields count 8 bytes, enums and int 4.
"""
import pathlib
import re
import sys

STRUCT = re.compile(r"(typedef struct (clattn_\w+) \{\n)(    size_t struct_size;.*?)(\n\} \2;)", re.S)
# Nothing at their ends that an older version could have been without.
NO_OPTIONAL_FIELD = {"clattn_cache_call", "clattn_merge_problem"}
FOUR_BYTES = re.compile(r"^(int|uint32_t|clattn_(type|alignment|weights|matmul|projection|mha_weights|rotary_\w+|"
                        r"ring_\w+)) ")


def declarations(body):
    """The statements of a struct's body, without comments, each with the names that it declares."""
    code = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return [" ".join(line.split()) for line in code.split(";") if line.strip()]


def ends_whole(fields):
    """Whether a struct of these ends without padding."""
    at = 0
    for field in fields:
        size = 4 if FOUR_BYTES.match(field + " ") else 8
        at = (at + size - 1) // size * size + size * len(field.split(","))
    return at % 8 == 0


def cut(match):
    if match.group(2) in NO_OPTIONAL_FIELD:
        return match.group(0)
    fields = declarations(match.group(3))[:-1]
    while not ends_whole(fields):
        fields.pop()
    if len(fields) < 2:
        sys.exit(f"{match.group(2)}: no field is left when those at its end are cut: where no version has been without "
                 f"any of them, add it to NO_OPTIONAL_FIELD of {__file__}; else see FOUR_BYTES there")
    return match.group(1) + "".join(f"    {f};\n" for f in fields).rstrip("\n") + match.group(4)


def grow(match):
    return match.group(1) + match.group(3) + "\n    int64_t field_of_the_future;" + match.group(4)


def main():
    include, older, newer = map(pathlib.Path, sys.argv[1:])
    structs = 0
    for path in sorted(include.glob("clattn*.h")):
        text = path.read_text()
        structs += len(STRUCT.findall(text))
        for folder, change in ((older, cut), (newer, grow)):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / path.name).write_text(STRUCT.sub(change, text))
    print(f"{structs} structs")
    return structs < 30  # all that begin with struct_size, or the pattern is wrong


sys.exit(main())
