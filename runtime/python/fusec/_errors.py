"""The exceptions and warnings of fusec. Each exception class corresponds to an exit code of the program and to a status of the C ABI; the
text of an exception is the one-line error of the program or of the C ABI."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from fusec._verification import Rebuild, Verification


class Error(Exception):
    """The base class of all errors of fusec. `code` is the program's exit code, `output` what it printed on stdout before it failed."""

    code = 70
    output = ""


class ComparisonFailed(Error):
    """An output differs by more than its tolerance (exit code 1). `report` is the Verification of fusec.verify or the Rebuild of
    fusec.rebuild."""

    code = 1
    report: Rebuild | Verification | None = None


class BadUsage(Error, ValueError):
    """An argument is wrong, or a call is not allowed at this time (exit code 2)."""

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
    """An internal error of fusec (exit code 70)."""


class CopyWarning(UserWarning):
    """A tensor is copied before every run because its memory layout or alignment does not allow using it in place."""


class FallbackWarning(UserWarning):
    """PyTorch itself runs a graph of torch.compile that fusec does not support."""


BY_CODE: dict[int, type[Error]] = {kind.code: kind for kind in (ComparisonFailed, BadUsage, BadModel, NoDevice, BadArtifact, BadInput)}
