#!/usr/bin/env python3
"""usage: make_layout.py INCLUDE [CC]

Prints the module clattn._layout: what the public headers in the folder INCLUDE declare, as Python data. Structs are
measured by a C program that is written here, compiled by CC (cc) and run; it compiles only where each function has the
type that was read out of the header. Flags for the OpenCL headers may be given in OPENCL_CFLAGS.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

STRUCT = re.compile(r"typedef struct (clattn_\w+) \{(.*?)\} \1;", re.S)
ENUM = re.compile(r"typedef enum (clattn_\w+) \{(.*?)\} \1;", re.S)
FUNCTION = re.compile(r"CLATTN_API\s+([\w ]+?[\s*]+)(clattn_\w+)\((.*?)\);", re.S)

PROGRAM = """#include <stdio.h>
#include <string.h>
%(includes)s
#define KIND(x) _Generic((x), int: "int32", unsigned: "uint32", int64_t: "int64", uint64_t: "uint64", \\
    double: "double", clattn_tensor: "clattn_tensor", clattn_host_tensor: "clattn_host_tensor", \\
    clattn_array: "clattn_array", clattn_ring_piece: "clattn_ring_piece", \\
    int64_t *: "int64", clattn_tensor *: "clattn_tensor", float *: "float", \\
    clattn_host_tensor *: "clattn_host_tensor", clattn_code_tensor *: "clattn_code_tensor", \\
    default: "pointer")
#define STRUCT(T) printf("    \\"%%s\\": (%%zu, (\\n", #T, sizeof(T));
#define FIELD(T, f, n) printf("        (\\"%%s\\", \\"%%s%%s\\", %%zu),\\n", #f, \\
    strcmp(KIND(((T *)0)->f), "float") == 0 && !*n ? "pointer" : KIND(((T *)0)->f), n, offsetof(T, f));
#define DEFAULTS(T, init) { \\
    const T given = init; \\
    size_t bytes = sizeof(given); \\
    while (bytes > 0 && ((const unsigned char *)&given)[bytes - 1] == 0) --bytes; \\
    printf("    \\"%%s\\": \\"", #T); \\
    for (size_t i = 0; i < bytes; ++i) printf("%%02x", ((const unsigned char *)&given)[i]); \\
    puts("\\","); }
#define VALUE(e) printf("    \\"%%s\\": %%d,\\n", #e, (int)(e));
%(functions)s
int main(void)
{
    puts("STRUCTS = {");
%(structs)s
    puts("}\\n\\n# As the INIT macros leave them, without the zeros at the end.\\nDEFAULTS = {");
%(defaults)s
    puts("}\\n\\nCONSTANTS = {");
%(values)s
    puts("}");
    printf("\\nVERSION_NUMBER = %%d\\n", CLATTN_VERSION_NUMBER);
    return 0;
}
"""


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def field_names(body):
    """All names of each declaration, and how many elements each has: `int64_t batch, heads;`, `int64_t stride[4];`."""
    for declaration in filter(None, (d.strip() for d in body.split(";"))):
        for part in declaration.split(","):
            found = re.search(r"(\w+)\s*(\[\d+\])?\s*$", part)
            yield found.group(1), found.group(2) or ""


def python_type(text):
    """One of a few words for a C type; every pointer is one, but text that is only read."""
    text = " ".join(text.split())
    if re.fullmatch(r"const char \*", text):
        return "text"
    if "*" in text or "[" in text or re.match(r"cl_(mem|context|device_id|command_queue|event)\b", text):
        return "pointer"
    names = {"int": "int32", "cl_uint": "uint32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
             "size_t": "uint64", "double": "double", "void": "void", "clattn_tensor": "clattn_tensor",
             "clattn_host_tensor": "clattn_host_tensor"}
    return names.get(text, "int32")  # the rest are enums


def argument_type(text):
    text = text.strip()
    if text == "void":
        return None
    return re.match(r"(.*?)\w*\s*(\[\d+\])?$", text, re.S)


def headers(folder):
    return sorted(path.name for path in folder.glob("clattn*.h"))


def parse(folder):
    code = "".join(without_comments((folder / name).read_text()) for name in headers(folder))
    structs = {name: list(field_names(body)) for name, body in STRUCT.findall(code)}
    values = [word.split("=")[0].strip() for _, body in ENUM.findall(code) for word in body.split(",") if word.strip()]
    functions = {}
    for result, name, arguments in FUNCTION.findall(code):
        types = []
        for argument in arguments.split(","):
            found = argument_type(argument)
            if found:
                types.append(found.group(1).strip() + (" *" if found.group(2) else ""))
        functions[name] = (result.strip(), types)
    return structs, values, functions


def measure(folder, compiler, structs, values, functions):
    checks = [f'_Static_assert(_Generic(&{name}, {result} (*)({", ".join(types) or "void"}): 1, default: 0), "{name}");'
              for name, (result, types) in functions.items()]
    lines = []
    for name, fields in structs.items():
        lines += [f"    STRUCT({name})", *(f"    FIELD({name}, {field}, \"{count}\")" for field, count in fields),
                  '    puts("    )),");']
    source = PROGRAM % {"includes": "\n".join(f"#include <{h}>" for h in headers(folder)),
                        "functions": "\n".join(checks),
                        "defaults": "\n".join(f"    DEFAULTS({name}, {name.upper()}_INIT)" for name in structs
                                             if f"{name}_init" in functions),
                        "structs": "\n".join(lines), "values": "\n".join(f"    VALUE({v})" for v in values)}
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, "layout.c")
        path.write_text(source)
        flags = os.environ.get("OPENCL_CFLAGS", "").split()
        subprocess.run([compiler, "-std=c11", f"-I{folder}", *flags, "-o", path.with_suffix(""), path], check=True)
        return subprocess.run([path.with_suffix("")], check=True, capture_output=True, text=True).stdout


def main():
    folder = pathlib.Path(sys.argv[1])
    compiler = sys.argv[2] if len(sys.argv) > 2 else "cc"
    structs, values, functions = parse(folder)
    print('"""What the public headers declare. Made by python/tools/make_layout.py; tests/python compares."""\n')
    print(measure(folder, compiler, structs, values, functions))
    print("FUNCTIONS = {")
    for name, (result, types) in functions.items():
        print(f'    "{name}": ("{python_type(result)}", ({"".join(f"{python_type(t)!r}, " for t in types)})),')
    print("}")


if __name__ == "__main__":
    main()
