"""A bar chart as SVG text: speed-ups of cells, grouped by workload, readable on light and dark pages."""
import dataclasses
from html import escape

ROW, GAP, TOP = 17, 10, 66           # heights in pixels: of a row, of the gap between workloads, above the first row
LEFT, BARS, RIGHT = 200, 420, 260    # widths: labels, bars, times
CLASSES = {"highest": "strict float32", "high": "TF32", "fp16": "half"}

# Pages show the chart as an image, where only the style sheet can tell whether the reader uses a light or a dark scheme.
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 } .soft { fill: #57606a }
.number { text-anchor: end } .grid { stroke: #d0d7de } .even { stroke: #57606a; stroke-dasharray: 3 3 }
.highest { fill: #3b76c4 } .high { fill: #d9822b } .fp16 { fill: #2a9d8f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9da7b1 } .grid { stroke: #30363d } .even { stroke: #9da7b1 }
  .highest { fill: #6ba3ee } .high { fill: #f0a355 } .fp16 { fill: #4cc3b4 }
}
"""


@dataclasses.dataclass
class Bar:
    workload: str
    batch: str
    precision: str
    ratio: float
    remark: str  # shown behind the bar


def tick_step(largest):
    """A round distance between ticks that gives at most 8 ticks."""
    return next(step for step in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if largest / step <= 8)


def legend():
    parts, x = [], LEFT
    for name, meaning in CLASSES.items():
        parts.append(f'<rect class="{name}" x="{x}" y="44" width="10" height="10" rx="2"/>')
        label = f"{name}: {meaning}"
        parts.append(f'<text x="{x + 15}" y="53">{label}</text>')
        x += 30 + 6 * len(label)
    return parts


def draw(title, subtitle, bars):
    largest = max([bar.ratio for bar in bars] + [1.5]) * 1.02
    scale = BARS / largest
    body, y, workload = [], TOP, None
    for bar in bars:
        if bar.workload != workload:
            y += GAP if workload else 0
            workload = bar.workload
            body.append(f'<text x="8" y="{y + 12}">{escape(workload)}</text>')
        length = max(bar.ratio * scale, 1)
        body += [f'<text class="number soft" x="{LEFT - 8}" y="{y + 12}">batch {escape(bar.batch)}</text>',
                 f'<rect class="{bar.precision}" x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" rx="2">'
                 f"<title>{escape(f'{bar.workload} batch {bar.batch} {bar.precision}: {bar.ratio:.2f}x')}</title></rect>",
                 f'<text x="{LEFT + length + 5:.1f}" y="{y + 12}">{bar.ratio:.2f}x '
                 f'<tspan class="soft">{escape(bar.remark)}</tspan></text>']
        y += ROW
    bottom, width = y + 4, LEFT + BARS + RIGHT
    ticks, step = [], tick_step(largest)
    for i in range(int(largest / step) + 1):
        x = LEFT + i * step * scale
        ticks += [f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom}"/>',
                  f'<text class="soft" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{i * step:g}</text>']
    even = LEFT + scale
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 24}" '
        f'viewBox="0 0 {width} {bottom + 24}" role="img">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text>',
        f'<text class="soft" x="8" y="36">{escape(subtitle)}</text>',
        *legend(), *ticks, f'<line class="even" x1="{even:.1f}" x2="{even:.1f}" y1="{TOP - 4}" y2="{bottom}"/>',
        *body, "</svg>", ""])
