"""As much of Markdown as our documents use, as HTML: headings, paragraphs, lists, tables, blocks of code, pictures,
links, `code`, **bold**. Anything else is an error rather than a surprise on the page."""
import html
import re


def slug(text):
    """As the places where Markdown is shown make the anchors of headings."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).lower()).replace(" ", "-")


def raised(text):
    """10^8 with its exponent as a superscript."""
    return re.sub(r"(?<=\w)\^(-?[A-Za-z0-9]+(?:\.\d+)?)", r"<sup>\1</sup>", text)


def inline(text, link, code):
    """link(target) gives an address, or None to leave only the text; code(name) gives what `name` becomes."""
    kept = []

    def keep(markup):
        kept.append(markup)
        return f"\0{len(kept) - 1}\0"

    text = re.sub(r"`([^`]+)`", lambda m: keep(code(m.group(1))), text)
    text = raised(html.escape(text, quote=False))

    def picture(m):
        return keep(f'<img alt="{html.escape(m.group(1))}" src="{link(m.group(2))}">')

    def anchor(m):
        address = link(m.group(2))
        return f'<a href="{address}">{m.group(1)}</a>' if address else m.group(1)

    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", picture, text)
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", anchor, text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    text = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", text)
    while "\0" in text:
        text = re.sub(r"\0(\d+)\0", lambda m: kept[int(m.group(1))], text)
    return text


def table(lines, render):
    if len(lines) < 2 or not re.fullmatch(r"[|:\s-]+", lines[1]):
        raise ValueError(f"a table whose second line is not dashes: {lines[0]}")
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    out = ['<div class="wide"><table>']
    for number, row in enumerate(rows):
        if number == 1:
            continue
        tag = "th" if number == 0 else "td"
        out.append("<tr>" + "".join(f"<{tag}>{render(cell)}</{tag}>" for cell in row) + "</tr>")
    return out + ["</table></div>"]


def preformatted(lines):
    return ["<pre><code>" + html.escape("\n".join(lines), quote=False) + "</code></pre>"]


class Blocks:
    """A document, line by line."""

    def __init__(self, text, render):
        self.lines, self.at, self.render, self.out = text.split("\n"), 0, render, []
        self.slugs = {}

    def take(self, wanted):
        taken = []
        while self.at < len(self.lines) and wanted(self.lines[self.at]):
            taken.append(self.lines[self.at])
            self.at += 1
        return taken

    def fenced(self):
        self.at += 1
        self.out += preformatted(self.take(lambda line: not line.startswith("```")))
        self.at += 1

    def indented(self):
        lines = self.take(lambda line: line.startswith("    ") or not line)
        while not lines[-1]:
            lines.pop()
        self.out += preformatted([line[4:] for line in lines])

    def items(self):
        marks = self.lines[self.at]
        tag = "ol" if marks[0].isdigit() else "ul"
        items = []
        for line in self.take(lambda line: line.strip() and not line.startswith("#")):
            begins = re.match(r"(?:[-*]|\d+\.) +(.*)", line)
            if begins:
                items.append(begins.group(1))
            else:
                items[-1] += " " + line.strip()
        self.out += [f"<{tag}>", *[f"<li>{self.render(item)}</li>" for item in items], f"</{tag}>"]

    def heading(self):
        marks, _, text = self.lines[self.at].partition(" ")
        name = slug(text)
        again = self.slugs.get(name, 0)  # a heading that was there before is numbered
        self.slugs[name] = again + 1
        name += f"-{again}" if again else ""
        self.out.append(f'<h{len(marks)} id="{name}">{self.render(text)}</h{len(marks)}>')
        self.at += 1

    def paragraph(self):
        lines = self.take(lambda line: line.strip() and not line.startswith(("```", "#", "|")))
        self.out.append(f"<p>{self.render(' '.join(lines))}</p>")

    def html(self):
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() or line.startswith("<!--"):
                self.at += 1
            elif line.startswith("```"):
                self.fenced()
            elif line.startswith("#"):
                self.heading()
            elif line.startswith("|"):
                self.out += table(self.take(lambda line: line.startswith("|")), self.render)
            elif line.startswith("    "):
                self.indented()
            elif re.match(r"[-*] |\d+\. ", line):
                self.items()
            else:
                self.paragraph()
        return "\n".join(self.out)


def convert(text, link, code):
    return Blocks(text, lambda part: inline(part, link, code)).html()
