"""The folder from which a running server may load artifacts, weights and adapters."""

from __future__ import annotations

import os
import pathlib

from fusec.serve._errors import RequestError
from fusec.serve._protocol import quoted


class Repository:
    """A folder of artifacts. Requests cannot load anything outside it."""

    def __init__(self, folder: str | os.PathLike[str] | None):
        self._folder = None if folder is None else pathlib.Path(folder).resolve()

    def path(self, name: object, what: str) -> str:
        """The path of a name in the folder. Raises RequestError if it does not exist, or if links lead out of the folder."""
        if self._folder is None:
            raise RequestError("the server was started without a folder to load from (--repository)", 403)
        if not isinstance(name, str) or not name or "\0" in name:
            raise RequestError(f"{what} is {quoted(name)}, expected a name in the server's folder")
        path = (self._folder / name).resolve()
        if path == self._folder or self._folder not in path.parents:
            raise RequestError(f"{what} {quoted(name)} is outside the server's folder", 403)
        if not path.exists():
            raise RequestError(f"{what} {quoted(name)} is not in the server's folder", 404)
        return str(path)

    def artifacts(self) -> list[str]:
        """The names of the artifacts in the folder."""
        if self._folder is None:
            return []
        return sorted(entry.parent.name for entry in self._folder.glob("*/manifest.json"))
