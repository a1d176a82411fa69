"""Who attends to whom: as text, in notebooks as a table of HTML, as a picture."""
from typing import Any, Iterable, List, Optional

from ._errors import InvalidArgument, InvalidShape

_NUMBERS_UP_TO = 16  # rows and keys of a picture whose cells have room for a number


class Shown(str):
    """A table of attention weights. It is the text; a notebook draws it in colours; save() writes a picture of it."""

    rows: List[List[float]] = []
    tokens: List[str] = []
    key_tokens: List[str] = []

    def _repr_html_(self) -> str:
        """What Jupyter and others like it show."""
        import html  # which `import clattn` need not wait for
        head = "".join(f"<th>{html.escape(token)}</th>" for token in self.key_tokens)
        lines = []
        for token, row in zip(self.tokens, self.rows):
            cells = "".join(f'<td style="background:rgba(8,81,156,{min(max(number, 0), 1):.2f});'
                            f'color:{"white" if number > 0.5 else "black"}">{100 * number:.0f}%</td>' for number in row)
            lines.append(f'<tr><th style="text-align:left">{html.escape(token)}</th>{cells}</tr>')
        return f'<table><tr><th></th>{head}</tr>{"".join(lines)}</table>'

    def figure(self) -> Any:
        """A matplotlib.figure.Figure, of no window and no state of matplotlib's."""
        try:
            from matplotlib.colors import PowerNorm
            from matplotlib.figure import Figure
        except ImportError:
            raise InvalidArgument("a picture is drawn by matplotlib, which is not here: "
                                  "pip install matplotlib") from None
        height, width = max(len(self.tokens), 1), max(len(self.key_tokens), 1)
        size = min(0.5, 12 / max(height, width))  # of a cell, in inches
        figure = Figure(figsize=(size * width + 2.4, size * height + 1.6), layout="constrained")
        axes = figure.add_subplot()
        has_numbers = max(height, width) <= _NUMBERS_UP_TO
        # Without numbers shades follow the square root, so that the many small weights of a long text are told apart.
        largest = max((number for row in self.rows for number in row), default=0.0) or 1.0
        image = axes.imshow(self.rows or [[0.0]], cmap="Blues", norm=PowerNorm(1 if has_numbers else 0.5, 0, largest))
        for axis, tokens in ((axes.xaxis, self.key_tokens), (axes.yaxis, self.tokens)):
            # Every label where there is room for it, else every 2nd, 5th, 10th, ...
            step = next((step for step in (1, 2, 5, 10, 20, 50, 100, 200) if step * size >= 0.25), 500)
            axis.set_ticks(range(0, len(tokens), step), tokens[::step])
            for label in axis.get_ticklabels():
                label.set_parse_math(False)  # a token may be a dollar
                label.set_fontsize(min(10, 60 * size * step))
        axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False)
        if max(map(len, self.key_tokens), default=0) > 3:
            for label in axes.get_xticklabels():
                label.set(rotation=60, ha="left", rotation_mode="anchor")
        axes.set_xlabel("key: is looked at")
        axes.set_ylabel("query: looks")
        if has_numbers:
            for i, row in enumerate(self.rows):
                for j, number in enumerate(row):
                    axes.text(j, i, f"{100 * number:.0f}", ha="center", va="center", fontsize=8,
                              color="white" if number > 0.5 * largest else "black")
        figure.colorbar(image, label="weight", shrink=0.8)
        return figure

    def save(self, path: Any, **options: Any) -> None:
        """Writes the picture to a file of matplotlib's kinds (.png, .svg, .pdf); options are those of savefig, such as
        dpi."""
        self.figure().savefig(path, **options)


def show(weights: Any, tokens: Optional[Iterable[Any]] = None, key_tokens: Optional[Iterable[Any]] = None) -> Shown:
    """A table of attention weights: a row for each query, darker where more of its weight is.

        print(clattn.show(weights, tokens))                     # as text; where a notebook's cell ends: coloured
        clattn.show(weights, tokens).save("attention.png")      # a picture, by matplotlib

    weights: [rows, keys], numbers from 0 to 1, of any kind of array or nested lists. tokens: names of the rows;
    key_tokens: of the keys, the same where None. Raises InvalidShape.
    """
    try:
        rows = [[float(number) for number in row] for row in weights]
    except (TypeError, ValueError):
        raise InvalidShape("weights: must be [rows, keys], a number for each; of several heads show one, "
                           "weights[0, head]") from None
    keys = len(rows[0]) if rows else 0
    if any(len(row) != keys for row in rows):
        raise InvalidShape("weights: has rows of different lengths; must be [rows, keys]")
    if key_tokens is None:
        key_tokens = range(keys) if tokens is None else list(tokens)[:keys]
    row_names = [str(token) for token in (range(len(rows)) if tokens is None else tokens)]
    key_names = [str(token) for token in key_tokens]
    if len(row_names) != len(rows) or (rows and len(key_names) != keys):
        raise InvalidShape(f"tokens: {len(row_names)} for rows and {len(key_names)} for keys; weights are "
                           f"[{len(rows)}, {keys}]")
    shown = Shown(_text(rows, row_names, key_names))
    shown.rows, shown.tokens, shown.key_tokens = rows, row_names, key_names
    return shown


def _text(rows: List[List[float]], tokens: List[str], key_tokens: List[str]) -> str:
    wide = max([len(token) for token in tokens], default=0)
    cells = [max(7, len(token) + 1) for token in key_tokens]
    lines = [" " * wide + "".join(token.rjust(cell) for token, cell in zip(key_tokens, cells))]
    for token, row in zip(tokens, rows):
        lines.append(token.ljust(wide) + "".join(_cell(number).rjust(cell) for number, cell in zip(row, cells)))
    return "\n".join(lines)


def _cell(number: float) -> str:
    shade = next((mark for least, mark in ((0.5, "██"), (0.35, "▓▓"), (0.2, "▒▒"), (0.1, "░░")) if number >= least), "")
    return f"{shade}{100 * number:4.0f}%"
