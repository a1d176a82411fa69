"""As much of mdoc(7) as man/clattn.1 uses, as HTML. Any other macro is an error rather than a surprise on the page."""
import html
import shlex

import markdown

# What a macro's words become, until the next macro of the line.
MARKED = {"Ar": "var", "Cm": "code", "Ev": "code", "Fl": 'code class="option"', "Li": "code", "Nm": "code",
          "Pa": "code", "Sx": "a"}
ENCLOSED = {"Pq": "()", "Dq": "“”", "Op": "[]"}  # and Po, Pc, whose words are lines of their own
CLOSING = set(".,:;)]")


class Text:
    """Words that become one line of HTML, with the spaces that mdoc sets."""

    def __init__(self):
        self.out, self.glued = "", True

    def html(self):
        """Code beside code is one piece of it."""
        return self.out.replace("</code> <code>", " ")

    def add(self, word, tag=None):
        text = html.escape(word.replace(r"\-", "-").replace(r"\&", ""), quote=False)
        if tag == "a":
            text = f'<a href="#{markdown.slug(word)}">{text}</a>'
        elif tag:
            text = f"<{tag}>{text}</{tag.split()[0]}>"
        self.out += text if self.glued or (word in CLOSING and not tag) else " " + text
        self.glued = False

    def open(self, mark):
        self.add(mark)
        self.glued = True

    def close(self, mark):
        self.glued = True
        self.add(mark)

    def line(self, words):
        """The words of a macro's line, the macro first: macros among them are obeyed."""
        macro = None
        while words:
            word, words = words[0], words[1:]
            if word == "Po":
                self.open("(")
            elif word == "Pc":
                self.close(")")
            elif word == "Ns":
                self.glued, macro = True, None
            elif word in ENCLOSED:
                return self.enclosed(ENCLOSED[word], words)
            elif word in MARKED:
                macro = word
                if word == "Nm" and (not words or words[0] in CLOSING | set(MARKED)):
                    self.add("clattn", "code")
                elif word == "Sx":
                    self.add(" ".join(w for w in words if w not in CLOSING), "a")
                    words = [w for w in words if w in CLOSING]
            elif word in CLOSING or word == "|":
                self.add(word)
            elif word in ("(", "["):
                self.open(word)
            else:
                self.add("-" + word if macro == "Fl" else word, MARKED.get(macro))

    def enclosed(self, marks, words):
        """Closing marks at the end of the line stand behind it."""
        inside = len(words)
        while inside and words[inside - 1] in CLOSING:
            inside -= 1
        self.open(marks[0])
        self.line(words[:inside])
        self.close(marks[1])
        self.line(words[inside:])


class Page:
    def __init__(self, text):
        self.text, self.out, self.synopsis, self.opened = Text(), [], False, []
        self.sections = []  # links to them
        for line in text.splitlines():
            if line.startswith("."):
                words = shlex.split(line[1:], posix=True) if '"' in line else line[1:].split()
                self.macro(words[0], words[1:])
            else:
                self.text.add(line)
        self.flush()

    def flush(self):
        """What was said since the last break is a paragraph; a line of the synopsis goes on in its one."""
        text = self.text.html()
        if text and self.synopsis and self.out[-1].startswith("<p>"):
            self.out[-1] = self.out[-1].replace("</p>", f"<br>\n{text}</p>")
        elif text:
            self.out.append(f"<p>{text}</p>")
        self.text = Text()

    def macro(self, name, words):
        block = getattr(self, "block_" + name, None)
        if block or self.synopsis and name == "Nm":
            self.flush()
        if block:
            block(words)
        elif name == "Nd":
            self.text.add("– " + " ".join(words))
        elif name in MARKED or name in ENCLOSED or name in ("Po", "Pc"):
            self.text.line([name, *words])
        elif name not in ("Dd", "Dt", "Os"):
            raise ValueError(f".{name}: mdoc.py does not know it")

    def block_Sh(self, words):
        title = " ".join(words)
        self.synopsis = title == "SYNOPSIS"
        self.out.append(f'<h2 id="{markdown.slug(title)}">{html.escape(title.capitalize())}</h2>')

    def block_Ss(self, words):
        title, place = f"<code>{html.escape(' '.join(words))}</code>", markdown.slug(" ".join(words))
        self.sections.append(f'<a href="#{place}">{title}</a>')
        self.out.append(f'<h3 id="{place}">{title}</h3>')

    def block_Pp(self, words):
        """The paragraph before it is over, as before every block."""

    def block_Dl(self, words):
        self.out += markdown.preformatted([" ".join(words)])

    def block_Lk(self, words):
        self.text.out = f'<a href="{html.escape(words[0])}">{html.escape(words[1], quote=False)}</a>'

    def block_Bl(self, words):
        self.opened.append(False)
        self.out.append("<dl>")

    def block_It(self, words):
        self.end_item()
        self.opened[-1] = True
        self.text.line(words if words[0] in MARKED else ["Li", *words])
        self.out.append(f"<dt>{self.text.html()}</dt>\n<dd>")
        self.text = Text()

    def end_item(self):
        if self.opened[-1]:
            self.out.append("</dd>")

    def block_El(self, words):
        self.end_item()
        self.opened.pop()
        self.out.append("</dl>")


def convert(text):
    """Links to the parts of the description, and the page."""
    page = Page(text)
    return "<p>" + ", ".join(page.sections) + "</p>\n" + "\n".join(page.out)
