#!/usr/bin/env python3
"""Figures in a small file, and the chart of horizontal bars that it becomes.

    bench/chart.py docs/speed.csv docs/speed.svg

The file has three lines of comment: what is longer ({least} and {most} become the medians'), of what, on which machine;
then a row a bar: its label, its series, how many times as long the other takes by the median, and by the minimum, which
is a mark. `bench/compare --figures` and `bench/decoders/compare --figures` write such files. Letters are sized for a
picture of 370 pixels and up.
"""
import csv
import html
import math
import sys
from pathlib import Path

COMMENTS = ("title", "about", "machine")
COLUMNS = ("label", "series", "median", "minimum")
SHADES = ["#1b4965", "#62b6cb"]
INK, SOFT, GRID = "#1d2126", "#4c5661", "#d9dee5"
WIDTH, MARGIN, BAR, GAP = 640, 18, 30, 16
SHOWN = 408  # pixels: two pictures stand side by side where README is read on a wide screen
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 23, 19, 16
LETTER = 0.53  # the mean width of a letter, as a share of its size


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def write_figures(path, comments, rows):
    """comments: {title, about, machine}; rows: (label, series, median, minimum)."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {name}: {comments[name]}\n" for name in COMMENTS)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((label, series, f"{median:.2f}", f"{least:.2f}") for label, series, median, least in rows)


def read_figures(path):
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    comments = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    return comments, rows


def wrapped(text, size, width):
    """Lines of the text that are no wider, letters being of mean width."""
    lines, most = [""], width / (LETTER * size)
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > most and lines[-1]:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


class Chart:
    def __init__(self, comments, rows):
        self.comments, self.rows = comments, rows
        self.series = list(dict.fromkeys(row["series"] for row in rows))
        self.labels = list(dict.fromkeys(row["label"] for row in rows))
        self.out, self.y = [], MARGIN
        self.left = MARGIN + 10 + LETTER * TEXT_SIZE * max(map(len, self.labels))
        most = max(float(row[which]) for row in rows for which in ("median", "minimum"))
        self.step = next(step for step in (0.5, 1, 2, 4, 5, 10, 20) if most / step <= 6)
        self.scale = (WIDTH - self.left - MARGIN - 62) / most

    def text(self, x, y, text, size, **attributes):
        more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
        text = html.escape(text, quote=False)
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{more}>{text}</text>')

    def paragraph(self, text, size, **attributes):
        for line in wrapped(text, size, WIDTH - 2 * MARGIN):
            self.y += 1.3 * size
            self.text(MARGIN, self.y - 0.3 * size, line, size, **attributes)
        self.y += 6

    def legend(self):
        if len(self.series) == 1:
            return
        for shade, name in zip(SHADES, self.series):
            self.y += 1.4 * TEXT_SIZE
            self.out.append(f'<rect x="{MARGIN}" y="{self.y - 15:.1f}" width="16" height="16" fill="{shade}"/>')
            self.text(MARGIN + 24, self.y, name, TEXT_SIZE, fill=INK)

    def axis(self, top, bottom):
        count = int((WIDTH - MARGIN - self.left) / self.scale / self.step) + 1
        for tick in sorted({1.0, *(self.step * n for n in range(count))}):
            x = self.left + tick * self.scale
            line = f'stroke="{INK}" stroke-width="2"' if tick == 1 else f'stroke="{GRID}"'
            self.out.append(f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" {line}/>')
            if tick == 1 or tick == int(tick) and abs(tick - 1) * self.scale > 24:
                self.text(x, bottom + 20, f"{tick:g}", SMALL_SIZE, text_anchor="middle", fill=SOFT)

    def bar(self, row, y):
        shade = SHADES[self.series.index(row["series"])]
        median, least = (self.left + float(row[which]) * self.scale for which in ("median", "minimum"))
        self.out += [
            f'<rect x="{self.left:.1f}" y="{y:.1f}" width="{median - self.left:.1f}" height="{BAR - 4}" '
            f'fill="{shade}"/>',
            f'<line x1="{median:.1f}" y1="{y + BAR / 2 - 2:.1f}" x2="{least:.1f}" y2="{y + BAR / 2 - 2:.1f}" '
            f'stroke="{INK}" stroke-width="2"/>',
            f'<line x1="{least:.1f}" y1="{y + 5:.1f}" x2="{least:.1f}" y2="{y + BAR - 9:.1f}" stroke="{INK}" '
            'stroke-width="2"/>']
        self.text(max(median, least) + 8, y + BAR / 2 + 4, f'{float(row["median"]):.1f}', TEXT_SIZE, fill=INK,
                  font_weight="bold")

    def bars(self):
        top = self.y + 14
        groups = [[row for row in self.rows if row["label"] == label] for label in self.labels]
        bottom = top + sum(BAR * len(group) + GAP for group in groups)
        self.axis(top - 4, bottom)
        y = top + GAP / 2
        for label, group in zip(self.labels, groups):
            self.text(self.left - 10, y + BAR * len(group) / 2 + 4, label, TEXT_SIZE, text_anchor="end", fill=INK)
            for row in group:
                self.bar(row, y)
                y += BAR
            y += GAP
        self.y = bottom + 28

    def svg(self):
        medians = [float(row["median"]) for row in self.rows]
        title = self.comments["title"].format(least=f"{min(medians):.1f}", most=f"{max(medians):.1f}")
        self.paragraph(title, TITLE_SIZE, font_weight="bold", fill=INK)
        self.paragraph(self.comments["about"], TEXT_SIZE, fill=SOFT)
        self.legend()
        self.bars()
        self.paragraph("Bars are ratios of median times, marks of minimum times. 1: as fast as clattn.", SMALL_SIZE,
                       fill=SOFT)
        self.paragraph(self.comments["machine"], SMALL_SIZE, fill=SOFT)
        height = math.ceil(self.y + MARGIN - 6)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{SHOWN}" '
            f'height="{height * SHOWN / WIDTH:.0f}" font-family="Helvetica, Arial, \'Liberation Sans\', sans-serif">',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>', *self.out, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: chart.py FIGURES.csv PICTURE.svg")
    Path(sys.argv[2]).write_text(Chart(*read_figures(sys.argv[1])).svg(), encoding="utf-8")
