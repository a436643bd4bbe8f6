"""What the objects for results of verify, bench, explain and rebuild share: the base class, and pieces of their pages."""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping, Sequence


class Report:
    """A result, or a part of one, that the program printed with --json. `json` has all of its keys."""

    def __init__(self, values: Mapping[str, Any]):
        self.json = values

    def __repr__(self) -> str:
        return f"fusec.{type(self).__name__}({dict(self.json)!r})"


def dims(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "no dims"


def bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            break
        count /= 1000
    else:
        unit = "TB"
    return f"{count:.3g} {unit}"


def title(text: str) -> str:
    return f"<p><b>{html.escape(text)}</b></p>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align: left">{html.escape(str(cell))}</{tag}>' for cell in cells) + "</tr>"

    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
