"""Reads the public headers: their sections, and in each the declarations with the comments above them. The one source
of the manual pages (manual.py) and of the same as HTML (site.py)."""
import dataclasses
import itertools
import pathlib
import re
import sys
import textwrap

# Sections of the headers in their order, each a page: its name, and what it is about in one line.
PAGES = {
    "status": ("clattn_status", "status codes, messages, version"),
    "context": ("clattn_context", "a device and what was compiled for it"),
    "problem": ("clattn_problem", "what attention is to compute"),
    "plan": ("clattn_plan", "how a problem is computed on a device"),
    "tensors": ("clattn_tensors", "where the data is, and what one call changes"),
    "computing": ("clattn_forward", "compute attention, merge results"),
    "rotary embedding": ("clattn_rotary", "turn queries and keys by their positions"),
    "append": ("clattn_append", "write new keys and values into a cache"),
    "costs": ("clattn_costs", "what things cost, and what a device can do"),
    "times of kernels": ("clattn_kernel_times", "what each kernel of a call takes"),
    "gradients": ("clattn_backward", "gradients of attention, for training"),
    "multi-head layer": ("clattn_mha", "attention with its projections"),
    "gradients of the multi-head layer": ("clattn_mha_backward", "gradients of the multi-head layer, for training"),
    "additive attention": ("clattn_additive", "additive attention"),
    "gradients of additive attention": ("clattn_additive_backward", "gradients of additive attention, for training"),
    "sums of weights": ("clattn_key_sums", "how much weight each key gets, how large logits are"),
    "groups of devices": ("clattn_group", "one call by several devices"),
    "schedules of ranks": ("clattn_ring", "attention over several ranks: what each sends and computes"),
    "scores of your own": ("clattn_code", "a score and a mask of your own, as a text in the kernels"),
    "block masks of a text": ("clattn_block_mask", "what a mask of your own says, of whole blocks"),
}
# Columns that a comment has, and from which on it may be that a longer word found no room.
FULL, NEARLY_FULL = 117, 100
OVERVIEW = ("clattn.h", "attention for every OpenCL device")


@dataclasses.dataclass
class Item:
    """A declaration. kind: function, type or macro."""

    kind: str
    name: str
    code: str


@dataclasses.dataclass
class Entry:
    """Declarations that follow one another, and what is said of them."""

    comment: list
    items: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Page:
    name: str
    about: str
    header: str
    entries: list = dataclasses.field(default_factory=list)

    def items(self, *kinds):
        return [item for entry in self.entries for item in entry.items if item.kind in kinds]


def comment_lines(text):
    """The text of a comment, without its marks; what stands in one line after its beginning counts as indented."""
    body = re.sub(r"^/\*|\*/$", "", text.strip())
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in body.split("\n")]
    return [lines[0].strip()] + lines[1:]


def blocks_of(lines):
    """Paragraphs, ("text", string), and what is laid out by hand, ("literal", lines)."""
    blocks, paragraph, literal = [], [], []

    def end():
        if paragraph:
            blocks.append(("text", " ".join(paragraph)))
            paragraph.clear()
        while literal and not literal[-1]:
            literal.pop()
        if literal:
            blocks.append(("literal", list(literal)))
            literal.clear()

    for line in lines:
        if line.startswith("  "):
            if paragraph:
                end()
            literal.append(line)
        elif not line and literal:
            literal.append("")
        elif not line:
            end()
        else:
            if literal:
                end()
            paragraph.append(line)
    end()
    return blocks


def declaration(lines, at):
    """The lines of the one that begins there, and where the next begins."""
    end = at
    if lines[at].startswith("#"):
        while lines[end].endswith("\\"):
            end += 1
    elif lines[at].startswith("typedef") and "{" in lines[at]:
        while not lines[end].startswith("}"):
            end += 1
    else:
        while ";" not in lines[end]:
            end += 1
    while lines[end].count("/*") > lines[end].count("*/"):
        end += 1
    return lines[at : end + 1], end + 1


def item_of(lines):
    """None where it is none of the user's business."""
    text = "\n".join(lines)
    if lines[0].startswith("#define"):
        name = re.match(r"#define (\w+)", lines[0]).group(1)
        if re.search(r"_(INIT|NONE|AT_ONCE|VERSION_\w+)$", name) and not re.search(r"_\d+_", name):
            return Item("macro", name, text)
    elif lines[0].startswith("typedef"):
        function = re.match(r"typedef [\w* ]*?(\w+)\(", lines[0])
        name = function.group(1) if function else re.findall(r"(\w+);", text)[-1 if "{" in lines[0] else 0]
        return Item("type", name, text)
    elif lines[0].startswith("CLATTN_API"):
        return Item("function", re.search(r"(clattn_\w+)\(", text).group(1), text)
    return None


def read_header(path):
    """Its opening comment, and its pages."""
    lines = path.read_text().split("\n")
    opening, pages, comment, at = None, [], None, 0
    while at < len(lines):
        line = lines[at]
        section = re.match(r"/\* ---- (.*?) -+ \*/", line)
        if section:
            if section.group(1) not in PAGES:
                raise SystemExit(f"{path.name}, section {section.group(1)}: give it a page in scripts/docs/header.py")
            pages.append(Page(*PAGES[section.group(1)], path.name))
            comment, at = None, at + 1
        elif line.startswith("/*"):
            end = next(i for i in range(at, len(lines)) if "*/" in lines[i])
            comment = comment_lines("\n".join(lines[at : end + 1]))
            opening = opening or comment
            if pages and comment[0] not in ("clang-format off", "clang-format on"):
                pages[-1].entries.append(Entry(comment))
            at = end + 1
        elif pages and re.match(r"typedef|CLATTN_API|#define", line):
            declared, after = declaration(lines, at)
            item = item_of(declared)
            if item:
                if not pages[-1].entries or lines[at - 1] == "":
                    pages[-1].entries.append(Entry([]))
                pages[-1].entries[-1].items.append(item)
            at = after
        else:
            at += 1
    return opening, pages


def said_of(entry):
    """Its comment; what all INIT macros and init functions mean is said here once."""
    if not entry.comment and any(item.name.endswith("_init") for item in entry.items):
        return ["The defaults, to start from. The function is for languages that cannot expand macros: struct_size is",
                "sizeof the struct."]
    return entry.comment


def indent_of(line):
    return len(line) - len(line.lstrip())


def goes_on(line, following):
    """Whether the next line of a header is the rest of this one: it had no room there."""
    if not following or indent_of(following) < indent_of(line):
        return False
    same = indent_of(following) == indent_of(line)
    if same and re.search(r"\S {2,}\S", following):  # it has columns, and so begins something
        return False
    return len(line) + 1 + len(following.split()[0]) > (FULL if same else NEARLY_FULL)


def joined(lines):
    return " ".join([lines[0].rstrip()] + [line.strip() for line in lines[1:]])


def fitted(lines, width):
    """What is laid out by hand, in lines that are not wider: what does not fit goes on below its own words, which two
    blanks or more part from what stands before them. Code and formulas, known by their indent, break elsewhere."""
    if min(indent_of(line) for line in lines if line) >= 4:
        return fitted_formulas(lines, width)
    out, at = [], 0
    while at < len(lines):
        first, at = at, at + 1
        if len(lines[first]) <= width:
            out.append(lines[first])
            continue
        while at < len(lines) and goes_on(lines[at - 1], lines[at]):
            at += 1
        line = joined(lines[first:at])
        words = re.match(r"(.*\S {2,})\S", line[: width // 2])
        below = len(words.group(1)) if words else indent_of(line)
        below = indent_of(lines[first + 1]) if at > first + 1 else below
        out += textwrap.wrap(line, width, subsequent_indent=" " * below, break_long_words=False,
                             break_on_hyphens=False)
    return out


def depths(line):
    """How many brackets are open at each character."""
    return list(itertools.accumulate((c in "([") - (c in ")]") for c in line))


def broken(line, width, more_width):
    """A line in lines, each broken where the fewest brackets are open."""
    out = []
    while len(line) > width:
        depth = depths(line)
        blanks = [at for at, c in enumerate(line) if c == " " and line[:at].strip()]
        fitting = [at for at in blanks if at <= width] or blanks[:1]
        if not fitting:
            break
        best = min(fitting, key=lambda at: (at < width // 2, depth[at], -at))
        out.append(line[:best].rstrip())
        line, width = line[best:].strip(), more_width
    return out + [line]


def fitted_formulas(lines, width):
    """Code and formulas in lines that are not wider; one goes on as long as a bracket is open."""
    out, at = [], 0
    while at < len(lines):
        first, at = at, at + 1
        while at < len(lines) and depths(" ".join(lines[first:at]) + " ")[-1] > 0:
            at += 1
        fits = all(len(line) <= width for line in lines[first:at])
        out += lines[first:at] if fits else fitted_formula(joined(lines[first:at]), width)
    return out


def fitted_formula(line, width):
    """One in lines: those beside others, which three blanks or more part, go below them, but what is said of a word
    stays beside it; what is still too wide breaks at a blank."""
    indent, line = indent_of(line), line.strip()
    parts = re.split(r" {3,}(?![ =])", line)
    column = None  # of what is said of a word
    if len(parts) > 1 and re.fullmatch(r"\w+", parts[0]):
        column = indent + line.index(parts[1])
        parts[:2] = [parts[0].ljust(column - indent) + parts[1]]
    out = []
    for part in parts:
        is_equation = " = " in part
        if out and not is_equation and len(out[-1]) + 3 + len(part) <= width:
            out[-1] += "   " + part
            continue
        begin = indent if not out else column or (indent if is_equation else indent + 4)
        goes_on = begin + 4 if out else column or indent + 4
        first_line, *more = broken(part, width - begin, width - goes_on)
        out += [" " * begin + first_line] + [" " * goes_on + line for line in more]
    return out


def fitted_code(code, width):
    """A declaration in lines that are not wider: where one was, no comment is behind a field by columns, and those that
    do not fit stand below theirs."""
    if max(map(len, code.split("\n"))) <= width:
        return code
    out = []
    for field, comment in re.findall(r"^(.*?)(?:/\*(.*?)\*/)?$", code, re.M | re.S):
        said = " ".join(line.strip().removeprefix("* ") for line in comment.split("\n")).strip()
        one_line = (field.rstrip() + " " if field.strip() else field) + f"/* {said} */"
        if not said or len(one_line) <= width:
            out.append(one_line if said else field)
            continue
        if field.strip():
            out.append(field.rstrip())
        indent = " " * (len(field) - len(field.lstrip()) + 4) if field.strip() else field
        wrapped = textwrap.wrap(f"/* {said}\xa0*/", width, initial_indent=indent, subsequent_indent=indent + " * ",
                                break_long_words=False, break_on_hyphens=False)
        out += [line.replace("\xa0", " ") for line in wrapped]
    return "\n".join(out)


def signature(item):
    """A function's type, its parameters, what is said of it in its line."""
    text, _, said = item.code.partition(";")
    text = re.sub(r"\s+", " ", text).replace("CLATTN_API ", "")
    kind, parameters = re.match(r"(.*?)\s*\b" + item.name + r"\((.*)\)$", text).groups()
    said = re.sub(r"\s+", " ", said).replace("/*", "").replace("*/", "").strip()
    return kind.strip(), [p.strip() for p in parameters.split(",")], said


def header_names(source):
    """clattn.h, and the other public headers in the order in which its opening says what is in them."""
    folder = pathlib.Path(source) / "include"
    opening = (folder / "clattn.h").read_text().partition("*/")[0]
    named = ["clattn.h"] + re.findall(r"\bclattn_\w+\.h\b", opening)
    there = sorted(path.name for path in folder.glob("*.h"))
    if sorted(named) != there:
        sys.exit(f"include/clattn.h: its opening names {', '.join(named[1:])}, once each; it must name all of "
                 f"{', '.join(there)}")
    return named


def read(source):
    """The opening of clattn.h, and the pages of each header by its name."""
    headers = {name: read_header(pathlib.Path(source) / "include" / name) for name in header_names(source)}
    return headers["clattn.h"][0], {name: pages for name, (_, pages) in headers.items()}


def examples_of(source, names):
    """(file name, the names that it uses), of examples/."""
    found = []
    for path in sorted((pathlib.Path(source) / "examples").glob("*.[ch]")):
        text = path.read_text()
        used = [name for name in names if re.search(rf"\b{name}\(", text)]
        if used:
            found.append((path.name, used))
    return found
