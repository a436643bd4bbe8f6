"""The log of a model's changes after it was loaded, which every replica follows.

A change has a version, which counts from 2 on; version 1 is the artifact as it was loaded. A log keeps only the changes that a replica that
starts later needs: new weights supersede older weights and rows, an adapter supersedes the previous one in its slot, and all rows of one
table are merged into one change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Change:
    """A change, by its kind. weights: the weights of `path`, an artifact of fusec.refit. rows: `ids` and `rows` for the table `subject`.
    adapter: loads `path` into the slot `subject`; "" empties the slot. load: loads the artifact at `path`. unload: frees the model."""

    kind: str
    subject: str = ""
    path: str = ""
    ids: np.ndarray | None = None
    rows: np.ndarray | None = None
    version: int = 0

    @property
    def what(self) -> tuple[str, str, str]:
        """A key that identifies a change which was tried on a model (not for rows)."""
        return self.kind, self.subject, self.path

    @property
    def brings_weights(self) -> bool:
        """Whether it determines the artifact of the weights, or that there are none."""
        return self.kind in ("weights", "load", "unload")

    def ends(self, older: Change) -> bool:
        """Whether it supersedes an older change completely."""
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
        """Adds a change. It gets the next version unless it has one already, as changes from another log do."""
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
        """Whether the model was unloaded and not loaded again."""
        return any(change.kind == "unload" for change in self.changes)

    def since(self, version: int) -> list[Change]:
        """The changes that a replica at `version` has to apply."""
        return [change for change in self.changes if change.version > version]


def _merged(older: Change, newer: Change) -> Change:
    """The rows of both changes; if both have an id, the newer row."""
    assert older.ids is not None and older.rows is not None and newer.ids is not None and newer.rows is not None
    ids = np.concatenate([older.ids, newer.ids])[::-1]
    rows = np.concatenate([older.rows, newer.rows])[::-1]
    kept, first = np.unique(ids, return_index=True)
    return replace(newer, ids=kept, rows=rows[first])
