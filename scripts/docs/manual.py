"""Manual pages of section 3 in mdoc, one a section of the headers, and for each function and type a page that leads to
its: usage: manual.py SOURCE FOLDER"""
import pathlib
import re
import sys
import textwrap

import header

WIDTH = 73  # of a page's text on a terminal of 80 columns


def escaped(text):
    text = text.replace("\\", "\\e")
    return "\\&" + text if text[:1] in (".", "'") else text


def sentences(text):
    """mdoc wants a line for each, and functions marked."""
    out = []
    for sentence in re.split(r"(?<=[A-Za-z0-9)\"\]_][.?!:])\s+(?=\S)", text.replace("`", '"')):
        for number, part in enumerate(re.split(r"(?<!\S)(\w+\(\)[.,:;]?)(?=\s|$)", sentence)):
            if number % 2:
                name, stop = part.split("()")
                out.append(f".Fn {name} {stop}".rstrip())
            else:
                out += [escaped(line) for line in textwrap.wrap(part.strip(), 78, break_on_hyphens=False)]
    return out


def literal(lines):
    indent = min(header.indent_of(line) for line in lines if line)
    lines = header.fitted(lines, WIDTH - 6 + indent)
    return [".Bd -literal -offset indent"] + [escaped(line[indent:]) for line in lines] + [".Ed"]


def described(blocks):
    out = []
    for kind, content in blocks:
        if out and kind == "text":
            out.append(".Pp")
        out += sentences(content) if kind == "text" else literal(content)
    return out


def heading(page, about, names, date):
    return [f".Dd {date}", f".Dt {page.upper()} 3", ".Os", ".Sh NAME",
            *[f".Nm {name}" + (" ," if name != names[-1] else "") for name in names], f".Nd {about}",
            ".Sh LIBRARY", "libclattn, the linker's option", ".Fl lclattn"]


def synopsis(page):
    out = [".Sh SYNOPSIS", f".In {page.header}"]
    for item in page.items("function"):
        kind, parameters, _ = header.signature(item)
        out += [f".Ft {kind}", f".Fo {item.name}", *[f'.Fa "{parameter}"' for parameter in parameters], ".Fc"]
    return out


def entry_text(entry):
    out = []
    said_of_type = [item.code.partition("/*")[2].strip(" */") for item in entry.items if item.kind == "type"]
    if not entry.comment and entry.items and not any("{" in item.code for item in entry.items) and said_of_type == [""]:
        return [] # an opaque type of which nothing is said
    if entry.items:
        out.append(".Ss " + ", ".join(item.name for item in entry.items))
    if said_of_type and "{" not in entry.items[0].code:
        out += sentences(said_of_type[0])
    for item in entry.items:
        if item.kind == "type" and "{" in item.code:
            code = header.fitted_code(item.code, WIDTH)
            out += [".Bd -literal", *[escaped(line) for line in code.split("\n")], ".Ed"]
    said = described(header.blocks_of(header.said_of(entry)))
    if said:
        out += [".Pp"] if out and out[-1] == ".Ed" else []
        out += said
    for item in entry.items:
        if item.kind == "function" and header.signature(item)[2]:
            out += ([".Pp"] if out and not out[-1].startswith(".Ss") else []) + [f".Fn {item.name} :"]
            out += sentences(header.signature(item)[2])
        if item.kind == "macro" and "_AT_ONCE" in item.name:
            out += [".Dl " + item.code]
    return out


def returns(page):
    if page.name == "clattn_status" or not any("clattn_status" in item.code for item in page.items("function")):
        return []
    return [".Sh RETURN VALUES", "Functions of type", ".Vt clattn_status", "return",
            ".Dv CLATTN_OK ,", "or what went wrong, of which", ".Xr clattn_last_error 3", "says more."]


def examples(source, page):
    found = header.examples_of(source, [item.name for item in page.items("function")])
    if not found:
        return []
    out = [".Sh EXAMPLES", "Whole programs, in the folder", ".Pa examples", "of the documents:",
           ".Bl -tag -width sixteen_bits.c"]
    for name, used in found:
        out += [f".It Pa {name}", *[f".Fn {u}" + (" ," if u != used[-1] else "") for u in used]]
    return out + [".El"]


def see_also(pages, own):
    names = sorted({header.OVERVIEW[0], *[page.name for page in pages]} - {own})
    return [".Sh SEE ALSO", ".Xr clattn 1 ,",
            *[f".Xr {name} 3" + (" ," if name != names[-1] else "") for name in names]]


# Lines are not adjusted, which each .Sh asks for anew: groff complains where a long name leaves nothing to spread.
def write(folder, name, lines):
    lines = [part for line in lines for part in ([line, ".na"] if line.startswith(".Sh ") else [line])]
    (folder / f"{name}.3").write_text("\n".join(lines) + "\n")


def main(source, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    date = re.search(r"^\.Dd (.*)$", (pathlib.Path(source) / "man/clattn.1").read_text(), re.M).group(1)
    opening, by_header = header.read(source)
    pages = sum(by_header.values(), [])
    name, about = header.OVERVIEW
    write(folder, name, heading(name, about, [name], date) +
          [".Sh SYNOPSIS", *[f".In {name}" for name in by_header], ".Sh DESCRIPTION"] +
          described(header.blocks_of(opening[2:])) + see_also(pages, name))
    for page in pages:
        functions = [item.name for item in page.items("function")]
        types = [item.name for item in page.items("type")]
        names = list(dict.fromkeys([page.name] + functions + types))
        body = [line for entry in page.entries for line in entry_text(entry)]
        write(folder, page.name, heading(page.name, page.about, names, date) + synopsis(page) +
              [".Sh DESCRIPTION"] + body + returns(page) + examples(source, page) + see_also(pages, page.name))
        for alias in names[1:]:
            write(folder, alias, [f".so man3/{page.name}.3"])


main(*sys.argv[1:])
