"""The results of verify, bench, explain and rebuild as objects. `json` holds the complete result; attributes give its parts."""

from __future__ import annotations

import html
import json
from typing import Any, Iterable, Iterator, Mapping, Sequence

from fusec import _program


class Report:
    """A result, or a part of one, that the program printed with --json. `json` has all of its keys."""

    def __init__(self, values: Mapping[str, Any]):
        self.json = values

    def __repr__(self) -> str:
        return f"fusec.{type(self).__name__}({dict(self.json)!r})"


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


class ComparedOutput(Report):
    """The comparison of an output of the model, or of a kernel, with the reference named by `against`."""

    @property
    def name(self) -> str:
        return self.json["name"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def dims(self) -> dict[str, int]:
        """The sizes, in elements."""
        return self.json["dims"]

    @property
    def against(self) -> str:
        """The reference: "interpreter", "onnxruntime" or "unfused regions"."""
        return self.json.get("against", "unfused regions")

    @property
    def kernel(self) -> str | None:
        """The kernel, in results of verify with per_fusion and of rebuild; otherwise None."""
        return self.json.get("kernel")

    @property
    def max_abs(self) -> float:
        return self.json["max_abs"]

    @property
    def max_rel(self) -> float:
        return self.json["max_rel"]

    @property
    def rel_l2(self) -> float:
        """The L2 norm of the difference divided by that of the reference; `tolerance` is its limit."""
        return self.json["rel_l2"]

    @property
    def tolerance(self) -> float:
        return self.json["tolerance"]

    @property
    def reason(self) -> str:
        """Why the tolerance has this value."""
        return self.json["reason"]


class Drift(Report):
    """The distance of an output from that of the model with its original tables, for an artifact that stores them in fewer bits."""

    @property
    def name(self) -> str:
        return self.json["name"]

    @property
    def elements(self) -> int:
        return self.json["elements"]

    @property
    def max_abs(self) -> float:
        return self.json["max_abs"]

    @property
    def mean_abs(self) -> float:
        return self.json["mean_abs"]

    @property
    def misplaced(self) -> int:
        """How many elements are NaN or infinite on one side only."""
        return self.json["misplaced"]

    @property
    def spearman(self) -> float | None:
        """The rank correlation; None if one side is constant."""
        return self.json["spearman"]

    @property
    def model_auc(self) -> float | None:
        """The AUC of the model; None without labels."""
        return self.json["model_auc"]

    @property
    def auc(self) -> float | None:
        """The AUC of the artifact; None without labels."""
        return self.json["auc"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]


class Verification(Report):
    """The result of verify. It is true if all outputs are within their tolerances."""

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def against(self) -> list[str]:
        """The references that outputs were compared with."""
        return self.json["against"]

    @property
    def outputs(self) -> list[ComparedOutput]:
        return [ComparedOutput(output) for output in self.json["outputs"]]

    @property
    def drift(self) -> list[Drift]:
        """The drift of each output if tables are stored in fewer bits; otherwise empty."""
        return [Drift(output) for output in self.json.get("drift", {"outputs": []})["outputs"]]

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        result = "passed" if self.passed else "FAILED"
        return f"fusec.Verification({result}, {len(self.json['outputs'])} comparisons with {', '.join(self.against)})"

    def _repr_html_(self) -> str:
        rows = [
            [o.kernel or o.name, _dims(o.dims), o.against, f"{o.max_abs:.3g}", f"{o.rel_l2:.3g}", f"{o.tolerance:.3g}", o.reason,
             "pass" if o.passed else "FAIL"]
            for o in self.outputs
        ]
        heads = ["output", "dims", "against", "max abs", "relative L2", "tolerance", "reason", ""]
        return _title("pass" if self.passed else "FAIL") + _table(heads, rows)


class EditTime(Report):
    """The times of an edited kernel and of its original."""

    @property
    def kernel(self) -> str:
        return self.json["kernel"]

    @property
    def dims(self) -> dict[str, int]:
        """The sizes, in elements."""
        return self.json["dims"]

    @property
    def original_us(self) -> float:
        """The fastest run of the original, in microseconds; edited_us is that of the edited kernel."""
        return self.json["original_us"]

    @property
    def edited_us(self) -> float:
        return self.json["edited_us"]


class EditCheck(Report):
    """The result of rebuild's check on one device."""

    @property
    def device(self) -> str:
        return self.json["device"]

    @property
    def target(self) -> str:
        """The target that the device runs, such as "cpu" or "sm_90a"."""
        return self.json["target"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def outputs(self) -> list[ComparedOutput]:
        """For every output of every edited kernel, the comparison at the sizes where its error was largest."""
        return [ComparedOutput(output) for output in self.json["outputs"]]

    @property
    def times(self) -> list[EditTime]:
        """The times of the edited kernels; empty if the check failed."""
        return [EditTime(time) for time in self.json["times"]]


class Rebuild(Report):
    """The result of rebuild. It is true if all checks passed."""

    @property
    def result(self) -> str:
        """The state of the artifact: "rebuilt", "left" (not changed because a check failed), "restored" or "unchanged"."""
        return self.json["result"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def kernels(self) -> list[str]:
        """The names of the edited kernels."""
        return self.json["kernels"]

    @property
    def checks(self) -> list[EditCheck]:
        """One check per device; a check that crashed is missing."""
        return [EditCheck(check) for check in self.json["checks"]]

    @property
    def not_checked(self) -> list[str]:
        """Targets that no device of this machine can run; their kernels were only compiled."""
        return self.json["not_checked"]

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        times = [f"{t.kernel} {t.original_us:.4g} -> {t.edited_us:.4g} us" for check in self.checks for t in check.times]
        return f"fusec.Rebuild({', '.join([self.result, *times])})"

    def _repr_html_(self) -> str:
        compared = [
            [o.kernel, o.name, check.device, _dims(o.dims), f"{o.max_abs:.3g}", f"{o.rel_l2:.3g}", f"{o.tolerance:.3g}",
             "pass" if o.passed else "FAIL"]
            for check in self.checks
            for o in check.outputs
        ]
        timed = [
            [t.kernel, check.device, _dims(t.dims), f"{t.original_us:.4g}", f"{t.edited_us:.4g}"]
            for check in self.checks
            for t in check.times
        ]
        heads = ["kernel", "output", "device", "dims", "max abs", "relative L2", "tolerance", ""]
        page = _title(self.result)
        page += _table(heads, compared) if compared else ""
        return page + (_table(["kernel", "device", "dims", "original us", "edited us"], timed) if timed else "")


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
        return f"fusec.Measurement({_dims(self.dims)} on {self.device}: device {self.device_us}, call {self.call_us})"


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
            [_dims(m.dims), f"{m.device_us.median:.4g}", f"{m.call_us.median:.4g}", f"{m.call_us.p99:.4g}", m.launches, _bytes(m.bytes)]
            for m in self
        ]
        text = _table(["dims", "device us", "call us", "p99", "launches", "moved"], rows)
        for measurement in self:
            kernels = [
                [k.name, f"{k.us.median:.4g}", f"{k.floor_us:.4g}", _bytes(k.bytes), f"{k.flops:,}"] for k in measurement.kernels
            ]
            if kernels:
                text += _title(_dims(measurement.dims)) + _table(["kernel", "us", "floor us", "moved", "flops"], kernels)
        return text


class Kernel(Report):
    """One launch of an artifact: a generated kernel, or a matrix product of the library."""

    @property
    def name(self) -> str:
        return self.json["name"]

    @property
    def kind(self) -> str:
        """The class of fusion, such as "pointwise" or "matmul"."""
        return self.json["class"]

    @property
    def ops(self) -> list[str]:
        return self.json["ops"]

    @property
    def onnx_nodes(self) -> list[str]:
        return self.json["onnx_nodes"]

    @property
    def modules(self) -> list[str]:
        """The PyTorch modules that it computes, if the exporter kept their names."""
        return self.json["modules"]

    @property
    def launch(self) -> str:
        return self.json["launch"]

    @property
    def bytes_read(self) -> int:
        return self.json["bytes_read"]

    @property
    def bytes_written(self) -> int:
        return self.json["bytes_written"]

    @property
    def flops(self) -> int:
        return self.json["flops"]


class NotFused(Report):
    """A tensor that crosses memory between two kernels."""

    @property
    def tensor(self) -> str:
        return self.json["tensor"]

    @property
    def type(self) -> str:
        return self.json["type"]

    @property
    def bytes(self) -> int:
        return self.json["bytes"]

    @property
    def producer_kernel(self) -> str:
        return self.json["producer_kernel"]

    @property
    def consumer_kernel(self) -> str:
        return self.json["consumer_kernel"]

    @property
    def reason(self) -> str:
        return self.json["reason"]

    @property
    def needed(self) -> str:
        """The condition under which the two kernels could be fused."""
        return self.json["needed"]


class Explanation(Report):
    """The result of explain: the launches of an artifact, and the reasons for them."""

    def __init__(self, values: Mapping[str, Any], path: str, flags: Mapping[str, Any]):
        super().__init__(values)
        self._path, self._flags = path, flags

    @property
    def target(self) -> str:
        return self.json["target"]

    @property
    def dims(self) -> dict[str, int]:
        """The sizes, in elements, for which bytes and flops are computed."""
        return self.json["dims"]

    @property
    def launches(self) -> int:
        return self.json["launches"]

    @property
    def launches_before(self) -> int:
        """The launches when every op of the model is its own kernel."""
        return self.json["before"]["launches"]

    @property
    def bytes(self) -> int:
        """The bytes that all kernels together read and write."""
        return self.json["after"]["bytes"]

    @property
    def bytes_before(self) -> int:
        return self.json["before"]["bytes"]

    @property
    def table_storage(self) -> list[dict[str, Any]]:
        """The tables that are stored in fewer bits: table, storage, rows, columns, bytes_before and bytes of each."""
        return self.json.get("table_storage", [])

    @property
    def table_placement(self) -> list[dict[str, Any]]:
        """The tables that stay in host memory while a GPU runs the model: table, placement and bytes of each."""
        return self.json.get("table_placement", [])

    @property
    def kernels(self) -> list[Kernel]:
        return [Kernel(kernel) for kernel in self.json["kernels"]]

    @property
    def not_fused(self) -> list[NotFused]:
        return [NotFused(edge) for edge in self.json["not_fused"]]

    def kernel(self, name: str) -> str:
        """A kernel's page: its ONNX nodes, its IR and its code."""
        return self._run({"kernel": name})

    def weights(self, pattern: str | None = None) -> dict[str, Any]:
        """The origin of each stored tensor and the destination of each initializer; only names that match a pattern such as
        "layers.*.weight", if one is given."""
        return json.loads(self._run({"weights": True, "tensor": pattern, "json": True}))["weights"]

    def dot(self) -> str:
        """A drawing of the graph as Graphviz text, with one cluster per kernel."""
        return self._run({"dot": True})

    def _run(self, flags: Mapping[str, Any]) -> str:
        return _program.run(["explain", self._path, *_program.flags({**self._flags, **flags})])

    def __repr__(self) -> str:
        return (
            f"fusec.Explanation({self.json['model']} for {self.target}: {self.launches_before} launches -> {self.launches}, "
            f"{_bytes(self.bytes_before)} moved -> {_bytes(self.bytes)} at {_dims(self.dims)})"
        )

    def _repr_html_(self) -> str:
        kernels = [
            [k.name, k.kind, ", ".join(dict.fromkeys(k.ops)), ", ".join(k.modules), _bytes(k.bytes_read), _bytes(k.bytes_written)]
            for k in self.kernels
        ]
        edges = [[e.producer_kernel, e.consumer_kernel, f"{e.tensor} {e.type}", _bytes(e.bytes), e.reason] for e in self.not_fused]
        text = _title(repr(self)[len("fusec.Explanation(") : -1])
        text += _table(["kernel", "class", "ops", "modules", "reads", "writes"], kernels)
        if edges:
            text += _title("What still crosses memory, and why") + _table(["from", "to", "tensor", "bytes", "why"], edges)
        return text


class Page:
    """A file that fusec.report wrote: HTML that needs no network."""

    def __init__(self, path: str):
        self.path = path

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"fusec.Page({self.path!r})"

    @property
    def html(self) -> str:
        with open(self.path, encoding="utf-8") as page:
            return page.read()

    def _repr_html_(self) -> str:
        # A frame keeps the page's styles and scripts apart from those of the notebook.
        frame = 'style="width: 100%; height: 720px; border: 1px solid #8888" sandbox="allow-scripts"'
        return f'<iframe {frame} srcdoc="{html.escape(self.html)}"></iframe>'


def _dims(dims: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in dims.items()) or "no dims"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            break
        count /= 1000
    else:
        unit = "TB"
    return f"{count:.3g} {unit}"


def _title(text: str) -> str:
    return f"<p><b>{html.escape(text)}</b></p>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f'<{tag} style="text-align: left">{html.escape(str(cell))}</{tag}>' for cell in cells) + "</tr>"

    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
