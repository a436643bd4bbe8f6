"""Line charts as SVG text, one below the other, with a logarithmic x axis; readable on light and dark pages."""
import dataclasses
import math
from html import escape

import chart

WIDTH, HEIGHT = 620, 230             # of a plot
LEFT, TOP, BELOW, RIGHT = 70, 62, 64, 190
MARKS = ["highest", "high", "fp16", "fourth"]  # chart's colours, and one more

STYLE = chart.STYLE + """
polyline { stroke-width: 2 }
polyline.highest { fill: none; stroke: #3b76c4 } polyline.high { fill: none; stroke: #d9822b }
polyline.fp16 { fill: none; stroke: #2a9d8f } polyline.fourth { fill: none; stroke: #9b5fc0 } .fourth { fill: #9b5fc0 }
"""


@dataclasses.dataclass
class Line:
    name: str
    points: list          # (x, y) with x > 0


@dataclasses.dataclass
class Plot:
    title: str
    across: str           # label of the x axis, with its unit
    lines: list
    logarithmic: bool     # whether the y axis is logarithmic, too
    limit: float = None   # the y value of a horizontal line
    limit_name: str = ""


def decades(low, high):
    return [10.0 ** power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def count(value):
    """1000 -> 1k"""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def scale(values, length, logarithmic):
    """A function that maps a value to its place on an axis of that length, and the ticks of the axis."""
    if logarithmic:
        ticks = decades(min(values), max(values))
        low, high = math.log10(ticks[0]), math.log10(ticks[-1])
        return lambda value: (math.log10(value) - low) / max(high - low, 1) * length, ticks
    step = chart.tick_step(max(values))
    ticks = [i * step for i in range(math.ceil(max(values) / step) + 1)]
    return lambda value: value / ticks[-1] * length, ticks


def draw_plot(plot, top):
    points = [point for line in plot.lines for point in line.points]
    place_x, ticks_x = scale([x for x, _ in points], WIDTH, True)
    heights = [y for _, y in points] + ([plot.limit] if plot.limit else [])
    place_y, ticks_y = scale(heights, HEIGHT, plot.logarithmic)
    bottom = top + HEIGHT
    body = [f'<text class="title" x="8" y="{top - 18}">{escape(plot.title)}</text>']
    for tick in ticks_x:
        x = LEFT + place_x(tick)
        body += [f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>',
                 f'<text class="soft" x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{count(tick)}</text>']
    for tick in ticks_y:
        y = bottom - place_y(tick)
        body += [f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>',
                 f'<text class="number soft" x="{LEFT - 6}" y="{y + 4:.1f}">{count(tick)}</text>']
    body.append(f'<text class="soft" x="{LEFT + WIDTH / 2}" y="{bottom + 31}" text-anchor="middle">{escape(plot.across)}</text>')
    if plot.limit:
        y = bottom - place_y(plot.limit)
        body += [f'<line class="even" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>',
                 f'<text class="number soft" x="{LEFT + WIDTH - 6}" y="{y - 5:.1f}">{escape(plot.limit_name)}</text>']
    for number, line in enumerate(plot.lines):
        mark = MARKS[number % len(MARKS)]
        path = [(LEFT + place_x(x), bottom - place_y(y)) for x, y in line.points]
        body.append(f'<polyline class="{mark}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in path)}"/>')
        for (x, y), (size, value) in zip(path, line.points):
            body.append(f'<circle class="{mark}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(line.name)}: {count(size)}, '
                        f"{value:.4g}</title></circle>")
        y = top + 14 + 18 * number
        body += [f'<rect class="{mark}" x="{LEFT + WIDTH + 24}" y="{y - 9}" width="10" height="10" rx="2"/>',
                 f'<text x="{LEFT + WIDTH + 39}" y="{y}">{escape(line.name)}</text>']
    return body


def draw(title, subtitle, plots):
    body, top = [], TOP + 18
    for plot in plots:
        body += draw_plot(plot, top)
        top += HEIGHT + BELOW + 18
    width, height = LEFT + WIDTH + RIGHT, top - 18
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<style>{STYLE}</style>", f'<text class="title" x="8" y="20">{escape(title)}</text>',
        f'<text class="soft" x="8" y="36">{escape(subtitle)}</text>', *body, "</svg>", ""])
