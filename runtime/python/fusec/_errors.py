"""The exceptions and warnings of fusec. Each class of exceptions stands for an exit code of the program and a status of the C ABI, and its
text is the one line that those give."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from fusec._reports import Rebuild, Verification


class Error(Exception):
    """Something that fusec was asked to do failed. `code` is the program's exit code, `output` what it printed before."""

    code = 70
    output = ""


class ComparisonFailed(Error):
    """An answer differs by more than its tolerance (exit code 1). `report` is the Verification, or of fusec.rebuild the Rebuild."""

    code = 1
    report: Rebuild | Verification | None = None


class BadUsage(Error, ValueError):
    """An argument is wrong, or comes at the wrong time (exit code 2)."""

    code = 2


class BadModel(Error):
    """The model is damaged, missing or unsupported (exit code 3)."""

    code = 3


class NoDevice(Error):
    """A device, driver, compiler or library is missing or failed, or memory ran out (exit code 4)."""

    code = 4


class BadArtifact(Error):
    """A file of an artifact is missing, damaged or of another version (exit code 5)."""

    code = 5


class BadInput(Error, ValueError):
    """A tensor has the wrong name, dtype, shape, size or device, or an index is out of range (exit code 6)."""

    code = 6


class Bug(Error):
    """fusec made a mistake of its own (exit code 70)."""


class CopyWarning(UserWarning):
    """A tensor is copied before every run because of how it lies in memory."""


class FallbackWarning(UserWarning):
    """PyTorch runs a graph of torch.compile that fusec does not support."""


BY_CODE: dict[int, type[Error]] = {kind.code: kind for kind in (ComparisonFailed, BadUsage, BadModel, NoDevice, BadArtifact, BadInput)}
