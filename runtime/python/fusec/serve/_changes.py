"""What has changed a model since it was loaded: the log that every replica of it follows.

A change has a version, which counts from 2 on: 1 is the artifact as it was loaded. A log keeps what a replica that comes later needs, and
no more: new weights end the time of older ones and of rows, an adapter that of the adapter before in its slot, and rows of one table become
one change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Change:
    """weights: `path` is an artifact of fusec.refit. rows: `ids` and `rows` go into the table `subject`. adapter: `path` is loaded into the
    slot `subject`, or "" empties it. load and unload: the model of the artifact at `path`, and none."""

    kind: str
    subject: str = ""
    path: str = ""
    ids: np.ndarray | None = None
    rows: np.ndarray | None = None
    version: int = 0

    @property
    def what(self) -> tuple[str, str, str]:
        """What tells it from other changes that a model may have been tried with, but for rows."""
        return self.kind, self.subject, self.path

    @property
    def brings_weights(self) -> bool:
        """Whether it says which artifact the weights are of, or that there are none."""
        return self.kind in ("weights", "load", "unload")

    def ends(self, older: Change) -> bool:
        """Whether nothing is left of an older change."""
        if self.kind in ("load", "unload"):
            return True
        if self.kind == "weights":
            return older.kind in ("weights", "rows")
        return self.kind == "adapter" and (older.kind, older.subject) == ("adapter", self.subject)


class ChangeLog:
    """The changes of one model, oldest first."""

    def __init__(self) -> None:
        self.version = 1
        self.changes: list[Change] = []

    def add(self, change: Change) -> Change:
        """Keeps a change, and gives it the next version unless it has one, as those from another log have."""
        self.version = change.version or self.version + 1
        change = replace(change, version=self.version)
        self.changes = [older for older in self.changes if not change.ends(older)]
        for i, older in enumerate(self.changes):
            if (older.kind, older.subject) == ("rows", change.subject) and change.kind == "rows":
                change = _merged(older, change)
                del self.changes[i]
                break
        self.changes.append(change)
        return change

    @property
    def is_unloaded(self) -> bool:
        """Whether the model was unloaded, and not loaded again."""
        return any(change.kind == "unload" for change in self.changes)

    def since(self, version: int) -> list[Change]:
        """What a replica has to apply that is at `version`."""
        return [change for change in self.changes if change.version > version]


def _merged(older: Change, newer: Change) -> Change:
    """The rows of both; of an id that both have, the newer row."""
    assert older.ids is not None and older.rows is not None and newer.ids is not None and newer.rows is not None
    ids = np.concatenate([older.ids, newer.ids])[::-1]
    rows = np.concatenate([older.rows, newer.rows])[::-1]
    kept, first = np.unique(ids, return_index=True)
    return replace(newer, ids=kept, rows=rows[first])
