"""The documents cannot drift from the tree: usage: pages.py SOURCE

Every block of C in them stands in an example, line by line; every link leads somewhere; every page and every example is
linked; charts are as bench/chart.py draws them, and README has the figures of its chart. Prints what is wrong, and "N
passed, N failed"."""
import pathlib
import re
import sys

from counted import check, end

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "bench"))
from chart import Chart, read_figures  # noqa: E402, which lies in another folder
examples = sorted((source / "examples").glob("*.c")) + sorted((source / "examples/mpi").glob("*.c"))
documents = sorted((source / "docs").glob("*.md"))
pages = documents + [source / "README.md"]


def lines_of(text):
    """Without indentation, which differs where a block is quoted out of a function."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def stands_in(block, lines):
    return any(lines[at : at + len(block)] == block for at in range(len(lines) - len(block) + 1))


code = [lines_of(path.read_text()) for path in examples]
linked = set()
for page in pages:
    text = page.read_text()
    name = page.relative_to(source)
    for block in re.findall(r"^```c\n(.*?)^```", text, re.S | re.M):
        quoted = lines_of(block)
        check(any(stands_in(quoted, lines) for lines in code), f"{name}: in no example: {quoted[0]} ...")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            path = (page.parent / target).resolve()
            linked.add(path)
            check(path.exists(), f"{name}: leads nowhere: {target}")
for path in documents + examples:
    known = path.resolve() in linked or path.name in ("README.md", "attention.c")
    check(known, f"{path.relative_to(source)}: no page links to it")
for path in sorted((source / "docs").glob("*.csv")):
    picture = path.with_suffix(".svg")
    drawn = Chart(*read_figures(path)).svg() == picture.read_text()
    check(drawn, f"{picture.name} is not of {path.name}: run bench/chart.py docs/{path.name} docs/{picture.name}")
readme = (source / "README.md").read_text()
for row in read_figures(source / "docs/speed.csv")[1]:
    for which in "median", "minimum":
        check(f"{float(row[which]):.1f}" in readme, f"README.md does not say {row['label']}'s {which}, {row[which]}")
end()
