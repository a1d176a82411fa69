"""A chart of ratios: horizontal bars, a group a label, a shade a series, as an SVG."""
import math
from pathlib import Path

SHADES = ["#1b4965", "#5fa8d3", "#bcd9ea"]
BAR, GAP, LEFT, WIDTH, TOP = 15, 12, 150, 460, 70


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def axis(scale, step, height):
    count = int((WIDTH + 1) / scale / step) + 1
    for tick in sorted({1.0, *(step * n for n in range(count))}):
        x = LEFT + tick * scale
        line = 'stroke="black" stroke-width="1.5"' if tick == 1 else 'stroke="#dddddd"'
        yield f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 30}" {line}/>'
        yield f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{tick:g}x</text>'


def legend(series):
    for i, (name, ratios) in enumerate(series.items()):
        x = LEFT + 200 * i
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{SHADES[i % 3]}"/>'
        yield f'<text x="{x + 17}" y="48">{name} (mean {geometric_mean(ratios):.2f})</text>'


def bars(labels, series, scale):
    group = BAR * len(series) + GAP
    for i, label in enumerate(labels):
        y = TOP + i * group
        yield f'<text x="{LEFT - 8}" y="{y + BAR * len(series) / 2 + 4:.0f}" text-anchor="end">{label}</text>'
        for j, ratios in enumerate(series.values()):
            end, at = ratios[i] * scale, y + j * BAR
            yield f'<rect x="{LEFT}" y="{at}" width="{end:.1f}" height="{BAR - 2}" fill="{SHADES[j % 3]}"/>'
            yield f'<text x="{LEFT + end + 4:.1f}" y="{at + BAR - 4}" font-size="11">{ratios[i]:.2f}</text>'


def draw(path, title, labels, series):
    """`series`: {name: a ratio for each label}. Ticks at halves or, of large ratios, even numbers; always at 1."""
    most = max(max(ratios) for ratios in series.values())
    step = 0.5 if most <= 8 else 2
    scale = WIDTH / (math.ceil(most / step) * step)
    height = TOP + (BAR * len(series) + GAP) * len(labels) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="14" y="24" font-size="15" font-weight="bold">{title}</text>',
        *legend(series), *axis(scale, step, height), *bars(labels, series, scale), "</svg>", "",
    ]
    Path(path).write_text("\n".join(out))
