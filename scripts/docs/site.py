"""The documents as a small site that opens from disk: usage: site.py SOURCE FOLDER

It opens on README, with the formula. A page for each document, each section of the headers and each example, and the
command's manual page, each with a way to the next; the lessons beside them, and a search. No script, no font, no
picture from elsewhere."""
import html
import pathlib
import re
import sys

import header
import markdown
import mdoc
import search

WIDTH = 88  # of code beside the menu, in a window of 1,100 pixels

FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - clattn</title>
<link rel="stylesheet" href="{up}site.css">
</head>
<body>
<header><a class="home" href="{up}index.html">clattn</a> <a href="{up}lessons/index.html">Lessons</a>
<a href="{up}command.html">Command</a> <a href="{up}api/clattn.h.html">API</a>
<a class="menu" href="#menu">Contents</a>
<form action="{up}search.html" role="search">
<input name="q" type="search" placeholder="Search" aria-label="Search"></form>
</header>
<div class="columns">
<main>
{body}
{beside}
</main>
<nav id="menu" aria-label="Contents">
{menu}
</nav>
</div>
</body>
</html>
"""

FORMULA = """<math display="block"><mi>out</mi><mo>=</mo><mi>softmax</mi><mo>&#x2061;</mo><mrow><mo>(</mo><mfrac><mrow>
<mi>Q</mi><msup><mi>K</mi><mi>T</mi></msup></mrow><mrow><mo form="prefix" stretchy="false">&#x221a;</mo><mrow
style="border-top:.07em solid"><mi>d</mi></mrow></mrow></mfrac><mo>+</mo><mi>bias</mi><mo>)</mo></mrow><mi>V</mi></math>
"""  # not msqrt, of whose sign Chromium draws nothing without a font that has a MATH table

SEARCH = """<h1>Search</h1>
<p><input id="question" type="search" aria-label="Words to look for"></p>
<p id="said" class="about" aria-live="polite"></p>
<ol id="found"></ol>
<noscript><p>The search needs scripts, which are off here.</p></noscript>
<script src="search-index.js"></script>
<script src="search.js"></script>"""


def breakable(code):
    """On a narrow screen a line may end within a long name: after an underscore, a point or a slash."""
    return re.sub(r"\S{15,}", lambda word: re.sub(r"(?<=[_./])(?=\w)", "<wbr>", word.group(0)), code)


class Site:
    def __init__(self, source, folder):
        self.source, self.folder = pathlib.Path(source), pathlib.Path(folder)
        self.opening, by_header = header.read(source)
        self.api = sum(by_header.values(), [])
        self.of_header = {f"include/{name}": f"api/{pages[0].name}.html" for name, pages in by_header.items()}
        self.of_header["include/clattn.h"] = f"api/{header.OVERVIEW[0]}.html"
        self.contents = (self.source / "docs/README.md").read_text()
        self.order = []
        self.places = []  # of the search
        self.known = {item.name: page.name for page in self.api for item in page.items("function", "type", "macro")}

    def link(self, page):
        """What a link of a document becomes on a page of the site, both named by their paths."""
        up = "../" * page.count("/")

        def address(target):
            if "://" in target:
                return target
            path, _, anchor = target.partition("#")
            anchor = "#" + anchor if anchor else ""
            path = re.sub(r"^(\.\./)+", "", path)
            inside = {"README.md": "index.html", "docs/README.md": "documents.html", "docs/": "documents.html",
                      "HACKING.md": "hacking.html", "NEWS": "news.html", "python/README.md": "python.html",
                      "cl/README.md": "kernels.html", "tests/README.md": "tests.html",
                      "man/clattn.1": "command.html",
                      **self.of_header, "": page}.get(path)
            path = path.removeprefix("docs/")
            if path.startswith("examples/") and path.endswith((".c", ".h")):
                inside = path + ".html"
            elif inside is None and path.endswith(".md"):
                inside = path.removesuffix(".md") + ".html"
            elif inside is None and path.endswith((".html", ".svg")):
                inside = path
            return up + inside + anchor if inside else None

        return address

    def code(self, page):
        """`name`, led to where the header tells of it."""
        up = "../" * page.count("/")

        def markup(text):
            name = re.match(r"\w*", text).group(0)
            inside = f"<code>{breakable(html.escape(text, quote=False))}</code>"
            if self.known.get(name) and re.fullmatch(r"\w+(\(\))?", text):
                return f'<a href="{up}api/{self.known[name]}.html#{name}">{inside}</a>'
            return inside

        return markup

    def chapters(self):
        """[(title, [(name, page)])]: the lists of docs/README.md, and the pages of the headers; read once."""
        if not self.order:
            self.order = [("Start", [("What it is", "index.html"), ("Documents", "documents.html")])]
            for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", self.contents, re.S | re.M):
                links = re.findall(r"^- .*?\[([^\]]+)\]\(([^)]+\.md)\)|, \[([^\]]+)\]\(([^)]+\.md)\)", text, re.M)
                links = [(first or second, self.link("")(target or other)) for first, target, second, other in links]
                self.order.append((title, [(name[0].upper() + name[1:], page) for name, page in links]))
            names = [header.OVERVIEW[0]] + [page.name for page in self.api]
            self.order.append(("Functions and types", [(name, f"api/{name}.html") for name in names]))
        return self.order

    def menu(self, page):
        up, out = "../" * page.count("/"), []
        for title, links in self.chapters():
            out += [f"<h2>{html.escape(title)}</h2>", "<ul>"]
            for name, target in links:
                here = ' aria-current="page"' if target == page else ""
                out.append(f'<li><a href="{up}{target}"{here}>{html.escape(name, quote=False)}</a></li>')
            out.append("</ul>")
        return "\n".join(out)

    def beside(self, page):
        """The ways to the pages before and after, in the order of the menu."""
        pages = [link for _, links in self.chapters() for link in links]
        at = next((number for number, link in enumerate(pages) if link[1] == page), None)
        if at is None:
            return ""
        up, out = "../" * page.count("/"), ['<div class="beside">']
        for kind, number in ("prev", at - 1), ("next", at + 1):
            if 0 <= number < len(pages):
                name, target = pages[number]
                said = "Before" if kind == "prev" else "Next"
                out.append(f'<a rel="{kind}" href="{up}{target}">{said}: {html.escape(name, quote=False)}</a>')
        return "\n".join(out + ["</div>"])

    def write(self, page, title, body):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FRAME.format(title=html.escape(title), up="../" * page.count("/"), body=body,
                                     beside=self.beside(page), menu=self.menu(page)))
        self.places += search.places_of(page, title, body)

    def document(self, path, page):
        text = path.read_text()
        body = markdown.convert(text, self.link(page), self.code(page))
        if page == "index.html":
            body = body.replace("</p>", "</p>\n" + FORMULA, 1)
        self.write(page, re.search(r"^# (.*)", text).group(1), body)

    def example(self, path):
        page = path.relative_to(self.source).as_posix() + ".html"
        code = html.escape(path.read_text(), quote=False)
        code = re.sub(r"\bclattn_\w+|\bCLATTN_\w+", lambda m: self.reference(m.group(0), page), code)
        self.write(page, path.name, f"<h1>{path.name}</h1>\n<pre><code>{code}</code></pre>")

    def reference(self, name, page):
        up = "../" * page.count("/")
        return f'<a href="{up}api/{self.known[name]}.html#{name}">{name}</a>' if name in self.known else name

    def said(self, blocks, page):
        out = []
        for kind, content in blocks:
            if kind == "text":
                text = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(content, quote=False))
                text = re.sub(r"\bclattn_\w+|\bCLATTN_\w+", lambda m: self.reference(m.group(0), page), text)
                out.append(f"<p>{text}</p>")
            else:
                indent = min(header.indent_of(line) for line in content if line)
                content = header.fitted(content, WIDTH + indent)
                out += markdown.preformatted([line[indent:] for line in content])
        return out

    @staticmethod
    def declared(item):
        """As in the header; a long function with a parameter a line."""
        code = item.code.replace("CLATTN_API ", "")
        if item.kind != "function":
            return header.fitted_code(code, WIDTH)
        kind, parameters, said = header.signature(item)
        line = f"{kind} {item.name}(".replace("* ", "*")
        whole = line + ", ".join(parameters) + ");"
        whole = whole if len(whole) <= 78 else line + ",".join("\n    " + parameter for parameter in parameters) + ");"
        return whole + (f" /* {said} */" if said else "")

    def api_page(self, api):
        page = f"api/{api.name}.html"
        out = [f"<h1>{api.name}</h1>", f'<p class="about">{api.about[0].upper()}{api.about[1:]}. '
               f"<code>#include &lt;{api.header}&gt;</code></p>"]
        for entry in api.entries:
            names = [f'<span id="{item.name}">{item.name}</span>' for item in entry.items]
            out += [f"<h2>{', '.join(names)}</h2>"] if names else []
            code = "\n".join(self.declared(item) for item in entry.items if item.kind != "macro")
            out += markdown.preformatted([code]) if code else []
            out += self.said(header.blocks_of(header.said_of(entry)), page)
        found = header.examples_of(self.source, [item.name for item in api.items("function")])
        if found:
            out.append("<h2>Examples</h2>\n<ul>")
            out += [f'<li><a href="../examples/{name}.html">{name}</a>: {", ".join(used)}</li>' for name, used in found]
            out.append("</ul>")
        self.write(page, api.name, "\n".join(out))

    @staticmethod
    def copy(path, folder):
        """The contents alone: a source tree may be read-only."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())

    def make(self):
        for path in sorted((self.source / "docs").glob("*.md")):
            self.document(path, "documents.html" if path.name == "README.md" else path.stem + ".html")
        self.document(self.source / "README.md", "index.html")
        self.document(self.source / "HACKING.md", "hacking.html")
        for folder, page in ("python", "python.html"), ("cl", "kernels.html"), ("tests", "tests.html"):
            self.document(self.source / folder / "README.md", page)
        self.write("command.html", "The command", "<h1>clattn, the command</h1>\n" +
                   mdoc.convert((self.source / "man/clattn.1").read_text()))
        news = (self.source / "NEWS").read_text()
        self.write("news.html", "News", "<h1>News</h1>\n<pre>" + html.escape(news) + "</pre>")
        for path in sorted((self.source / "examples").glob("**/*.[ch]")):
            self.example(path)
        name, about = header.OVERVIEW
        self.write(f"api/{name}.html", name, "\n".join(
            [f"<h1>{name}</h1>", f'<p class="about">{about[0].upper()}{about[1:]}.</p>'] +
            self.said(header.blocks_of(self.opening[2:]), f"api/{name}.html")))
        for api in self.api:
            self.api_page(api)
        self.write("search.html", "Search", SEARCH)
        (self.folder / "search-index.js").write_text(search.index(self.places))
        beside = [self.source / "scripts/docs/site.css", self.source / "scripts/docs/search.js"]
        for path in [*sorted((self.source / "docs").glob("*.svg")), *beside]:
            self.copy(path, self.folder)
        for path in sorted((self.source / "docs/lessons").iterdir()):
            self.copy(path, self.folder / "lessons")
        lessons = self.folder / "lessons/index.html"  # as the command writes it, without a way back
        lessons.write_text(lessons.read_text().replace(
            "</head><body>", '</head><body>\n<p><a href="../index.html">clattn: what it is</a></p>', 1))


Site(*sys.argv[1:]).make()
