"""What verify, bench, explain and rebuild say, as objects. `json` of each is the whole of it; attributes are its parts."""

from __future__ import annotations

import html
import json
from typing import Any, Iterable, Iterator, Mapping, Sequence

from fusec import _program


class Report:
    """A part of what the program printed with --json. `json` has all of its keys."""

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
    """How far the answers of an output, or of a kernel's output, are from a judge's."""

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
        """"interpreter", "onnxruntime" or "unfused regions"."""
        return self.json.get("against", "unfused regions")

    @property
    def kernel(self) -> str | None:
        """Of verify with per_fusion, and of rebuild."""
        return self.json.get("kernel")

    @property
    def max_abs(self) -> float:
        return self.json["max_abs"]

    @property
    def max_rel(self) -> float:
        return self.json["max_rel"]

    @property
    def rel_l2(self) -> float:
        """The norm of the difference over that of the judge's answers, which `tolerance` limits."""
        return self.json["rel_l2"]

    @property
    def tolerance(self) -> float:
        return self.json["tolerance"]

    @property
    def reason(self) -> str:
        """Of the tolerance."""
        return self.json["reason"]


class Drift(Report):
    """How far an output is from that of the model with its own tables, where an artifact stores them in fewer bits."""

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
        """Elements of which only one is NaN or infinite."""
        return self.json["misplaced"]

    @property
    def spearman(self) -> float | None:
        """The rank correlation, where neither side is constant."""
        return self.json["spearman"]

    @property
    def model_auc(self) -> float | None:
        """Of the model, where there are labels."""
        return self.json["model_auc"]

    @property
    def auc(self) -> float | None:
        """Of the artifact."""
        return self.json["auc"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]


class Verification(Report):
    """Whether the answers are right."""

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def against(self) -> list[str]:
        """The judges."""
        return self.json["against"]

    @property
    def outputs(self) -> list[ComparedOutput]:
        return [ComparedOutput(output) for output in self.json["outputs"]]

    @property
    def drift(self) -> list[Drift]:
        """Of the outputs, where tables are stored in fewer bits; else empty."""
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
    """How long an edited kernel takes, and its original."""

    @property
    def kernel(self) -> str:
        return self.json["kernel"]

    @property
    def dims(self) -> dict[str, int]:
        """The sizes, in elements."""
        return self.json["dims"]

    @property
    def original_us(self) -> float:
        """Microseconds of the fastest run, as edited_us."""
        return self.json["original_us"]

    @property
    def edited_us(self) -> float:
        return self.json["edited_us"]


class EditCheck(Report):
    """What rebuild found on a device."""

    @property
    def device(self) -> str:
        return self.json["device"]

    @property
    def target(self) -> str:
        """What the device runs: "cpu", "sm_90a"."""
        return self.json["target"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def outputs(self) -> list[ComparedOutput]:
        """Of every result of every edited kernel the sizes at which it was worst."""
        return [ComparedOutput(output) for output in self.json["outputs"]]

    @property
    def times(self) -> list[EditTime]:
        """Empty where the check failed."""
        return [EditTime(time) for time in self.json["times"]]


class Rebuild(Report):
    """What became of edited kernels."""

    @property
    def result(self) -> str:
        """What became of the artifact: "rebuilt", "left" as it was because a check failed, "restored", or "unchanged"."""
        return self.json["result"]

    @property
    def passed(self) -> bool:
        return self.json["pass"]

    @property
    def kernels(self) -> list[str]:
        """Those whose texts were edited."""
        return self.json["kernels"]

    @property
    def checks(self) -> list[EditCheck]:
        """By device; nothing of one whose check crashed."""
        return [EditCheck(check) for check in self.json["checks"]]

    @property
    def not_checked(self) -> list[str]:
        """Targets that no device here runs: their kernels were compiled only."""
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
        """Microseconds that its bytes take at the peak bandwidth of memory."""
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
        """Of the device alone."""
        return Spread(self.json["device_us"])

    @property
    def call_us(self) -> Spread:
        """Of whole calls, from host memory to host memory."""
        return Spread(self.json["call_us"])

    @property
    def launches(self) -> int:
        return self.json["launches"]

    @property
    def bytes(self) -> int:
        """That all kernels read and write."""
        return self.json["bytes"]

    @property
    def flops(self) -> int:
        return self.json["flops"]

    @property
    def kernels(self) -> list[KernelTime]:
        """Of bench with per_kernel."""
        return [KernelTime(kernel) for kernel in self.json.get("kernels", [])]

    @property
    def runs_per_second(self) -> float | None:
        """Of bench with contexts."""
        throughput = self.json.get("throughput")
        return throughput and throughput["runs_per_second"]

    def __repr__(self) -> str:
        return f"fusec.Measurement({_dims(self.dims)} on {self.device}: device {self.device_us}, call {self.call_us})"


class Bench(Sequence[Measurement]):
    """A Measurement for each size, in the order that was asked for."""

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
    """One launch of an artifact: a generated kernel, or a product of the library."""

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
        """The modules of PyTorch that it computes, where the exporter kept their names."""
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
        """What would have to hold."""
        return self.json["needed"]


class Explanation(Report):
    """What an artifact launches and why."""

    def __init__(self, values: Mapping[str, Any], path: str, flags: Mapping[str, Any]):
        super().__init__(values)
        self._path, self._flags = path, flags

    @property
    def target(self) -> str:
        return self.json["target"]

    @property
    def dims(self) -> dict[str, int]:
        """The sizes that bytes and flops are of, in elements."""
        return self.json["dims"]

    @property
    def launches(self) -> int:
        return self.json["launches"]

    @property
    def launches_before(self) -> int:
        """Of the ops as the model has them."""
        return self.json["before"]["launches"]

    @property
    def bytes(self) -> int:
        """That all kernels read and write."""
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
        """The tables that lie in host memory while a GPU runs the model: table, placement and bytes of each."""
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
        """What each stored tensor was made of, and where each initializer went; those whose names match, as "layers.*.weight"."""
        return json.loads(self._run({"weights": True, "tensor": pattern, "json": True}))["weights"]

    def dot(self) -> str:
        """A drawing: Graphviz text with one cluster per kernel."""
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
