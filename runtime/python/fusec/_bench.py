"""The results of bench as objects. `json` holds the complete result; attributes give its parts."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from fusec import _report
from fusec._report import Report


class Spread(Report):
    """Times in microseconds."""

    @property
    def median(self) -> float:
        return self.json["median"]

    @property
    def p10(self) -> float:
        return self.json["p10"]

    @property
    def p90(self) -> float:
        return self.json["p90"]

    @property
    def p99(self) -> float:
        return self.json["p99"]

    def __repr__(self) -> str:
        return f"{self.median:.4g} us (p99 {self.p99:.4g} us)"


class KernelTime(Report):
    """The time of one kernel."""

    @property
    def name(self) -> str:
        return self.json["name"]

    @property
    def us(self) -> Spread:
        return Spread(self.json["us"])

    @property
    def floor_us(self) -> float:
        """A lower bound in microseconds: the time of its bytes at the peak memory bandwidth."""
        return self.json["floor_us"]

    @property
    def bytes(self) -> int:
        return self.json["bytes_read"] + self.json["bytes_written"]

    @property
    def flops(self) -> int:
        return self.json["flops"]


class Measurement(Report):
    """The times for one size of every dim."""

    @property
    def dims(self) -> dict[str, int]:
        """The sizes, in elements."""
        return self.json["dims"]

    @property
    def device(self) -> str:
        return self.json["device"]

    @property
    def device_us(self) -> Spread:
        """Device time of a run."""
        return Spread(self.json["device_us"])

    @property
    def call_us(self) -> Spread:
        """Time of whole calls, from host memory to host memory."""
        return Spread(self.json["call_us"])

    @property
    def launches(self) -> int:
        return self.json["launches"]

    @property
    def bytes(self) -> int:
        """The bytes that all kernels together read and write."""
        return self.json["bytes"]

    @property
    def flops(self) -> int:
        return self.json["flops"]

    @property
    def kernels(self) -> list[KernelTime]:
        """The time of each kernel, measured with per_kernel."""
        return [KernelTime(kernel) for kernel in self.json.get("kernels", [])]

    @property
    def runs_per_second(self) -> float | None:
        """The throughput, measured with contexts."""
        throughput = self.json.get("throughput")
        return throughput and throughput["runs_per_second"]

    def __repr__(self) -> str:
        return f"fusec.Measurement({_report.dims(self.dims)} on {self.device}: device {self.device_us}, call {self.call_us})"


class Bench(Sequence[Measurement]):
    """The result of bench: one Measurement per size, in the requested order."""

    def __init__(self, values: list[Mapping[str, Any]]):
        self.json = values
        self._measurements = [Measurement(value) for value in values]

    def __len__(self) -> int:
        return len(self._measurements)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]  # an index or a slice
        return self._measurements[place]

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self._measurements)

    def __repr__(self) -> str:
        return f"fusec.Bench({self._measurements!r})"

    def _repr_html_(self) -> str:
        rows = [
            [_report.dims(m.dims), f"{m.device_us.median:.4g}", f"{m.call_us.median:.4g}", f"{m.call_us.p99:.4g}", m.launches, _report.bytes(m.bytes)]
            for m in self
        ]
        text = _report.table(["dims", "device us", "call us", "p99", "launches", "moved"], rows)
        for measurement in self:
            kernels = [
                [k.name, f"{k.us.median:.4g}", f"{k.floor_us:.4g}", _report.bytes(k.bytes), f"{k.flops:,}"] for k in measurement.kernels
            ]
            if kernels:
                text += _report.title(_report.dims(measurement.dims)) + _report.table(["kernel", "us", "floor us", "moved", "flops"], kernels)
        return text
