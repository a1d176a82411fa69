"""What is made of the headers and the documents: usage: made.py SOURCE FOLDER

FOLDER/man3 and FOLDER/site are as scripts/docs made them. Every exported function has a manual page and a place in
the HTML, what pages name exists, mandoc has nothing to complain of, the command's page says what its manual says,
every link of the site leads somewhere, and every picture says what it shows. Prints what is wrong, and "N passed, N
failed"."""
import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

from counted import check, end

source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def exported():
    text = "\n".join(path.read_text() for path in sorted((source / "include").glob("*.h")))
    text = re.sub(r"^#.*", "", text, flags=re.M)
    return re.findall(r"CLATTN_API [^();]*?(clattn_\w+)\(", text)


def manual(name):
    """The text of a page, or of the one that it leads to."""
    path = folder / f"man3/{name}.3"
    text = path.read_text() if path.exists() else ""
    leads = re.match(r"\.so (man3/\S+)", text)
    return (folder / leads.group(1)).read_text() if leads else text


def check_manuals():
    for name in exported():
        check(re.search(rf"^\.Fo {name}$", manual(name), re.M), f"{name}: has no manual page")
    pages = [path for path in sorted((folder / "man3").glob("*.3")) if not path.read_text().startswith(".so")]
    for path in pages:
        declared = "\n".join(re.findall(r"^\.Bd -literal\n(.*?)^\.Ed", path.read_text(), re.S | re.M))
        wide = [line for line in declared.split("\n") if len(line) > 73]
        check(not wide, f"{path.name}: wider than a terminal of 80 columns: {wide}")
    for path in pages + [source / "man/clattn.1"]:
        for name, section in re.findall(r"^\.Xr (\S+) (\d)", path.read_text(), re.M):
            there = (folder / f"man3/{name}.3").exists() if section == "3" else (source / f"man/{name}.1").exists()
            check(there, f"{path.name}: names {name}({section}), which is not there")
        if shutil.which("mandoc"):
            run = subprocess.run(["mandoc", "-Tlint", str(path)], capture_output=True, text=True)
            # Ours are not installed here; they were looked for above.
            said = [line for line in run.stdout.splitlines() if "referenced manual not found" not in line]
            check(not said, "\n".join(said))
    if not shutil.which("mandoc"):
        print("made: no mandoc here: the manual pages were not looked at by it")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), []
        self.name = path.relative_to(folder / "site")
        text = path.read_text()
        self.feed(text)
        for alt, caption in re.findall(r'<img[^>]* alt="([^"]*)".*?<figcaption[^>]*>(.*?)</figcaption>', text, re.S):
            check(caption in alt, f"{self.name}: a picture's words are not its caption: {alt}")
        if self.name == pathlib.Path("lessons/index.html"):
            for table in re.findall(r"<table>(.*?)</table>", text, re.S):
                check("<caption>" in table, f"{self.name}: a table without a caption: {table[:80]}")

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            check(values["id"] not in self.ids, f"{self.name}: two places are called {values['id']}")
            self.ids.add(values["id"])
        self.targets += [values[name] for name in ("href", "src") if values.get(name)]
        if tag == "img":
            check(len(values.get("alt") or "") > 60, f"{self.name}: a picture whose words do not say what it shows")


def check_site():
    site = folder / "site"
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for target in page.targets:
            if re.match(r"[a-z]+:", target):
                continue
            place, _, anchor = target.partition("#")
            leads = (path.parent / urllib.parse.unquote(place)).resolve() if place else path
            check(leads.exists(), f"{page.name}: leads nowhere: {target}")
            if anchor and leads in pages:
                check(anchor in pages[leads].ids, f"{page.name}: no such place: {target}")
        if path != site / "search.html" and "lessons" not in path.parts:
            check('<form action=' in path.read_text(), f"{page.name}: has no way to the search")
    check_order(site, pages)
    check_search(site, pages)
    api = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    for name in exported():
        check(name in api, f"{name}: is not in the HTML")


def check_order(site, pages):
    """From the first page on, each leads to the next one of the menu, to the last."""
    order, page = [], site / "index.html"
    while page.resolve() not in order:
        order.append(page.resolve())
        following = re.search(r'rel="next" href="([^"]*)"', page.read_text())
        page = page.parent / following.group(1) if following else page
    menu = re.findall(r'<li><a href="([^"]*)"', (site / "index.html").read_text().partition('<nav id="menu"')[2])
    menu = [(site / target).resolve() for target in menu]
    check(order == menu, "the ways to the next page leave out some of the menu")
    check(set(order) <= set(pages), "a way leads to the next page where there is none")


def check_search(site, pages):
    """Its data is a script; each place is there, and a name of the header is found."""
    found = json.loads((site / "search-index.js").read_text().removeprefix("window.places = ").removesuffix(";\n"))
    for title, section, address, _ in found:
        place, _, anchor = address.partition("#")
        path = (site / place).resolve()
        check(path in pages and (not anchor or anchor in pages[path].ids), f"search: {title}, {section}: {address}")
    for word in "clattn_plan_create", "softmax", "CLATTN_CACHE_DIR":
        check(any(word in words for _, _, _, words in found), f"search: does not know {word}")


def check_command():
    """The command's page says what mandoc makes of the manual: word for word, but for capitals."""
    if not shutil.which("mandoc"):
        return
    run = subprocess.run(["mandoc", "-Tutf8", "-Owidth=400", str(source / "man/clattn.1")], capture_output=True,
                         text=True, check=True)
    right = re.sub(r".\x08", "", run.stdout)
    right = right[right.index("NAME"):right.rindex("\n", 0, len(right.rstrip()))]
    page = (folder / "site/command.html").read_text()
    page = page[page.index('<h2 id="name">'):page.index("</main>")]
    made = html.unescape(re.sub(r"<[^>]*>", "", re.sub(r'<a href="(http[^"]*)">(.*?)</a>', r"\2: \1", page)))
    words = [text.lower().split() for text in (made, right)]
    first = next((i for i, (a, b) in enumerate(zip(*words)) if a != b), min(map(len, words)))
    said = [" ".join(text[max(first - 4, 0):first + 4]) for text in words]
    check(words[0] == words[1], f"command.html says: {said[0]}, its manual page: {said[1]}")


check_manuals()
check_site()
check_command()
end()
