"""The results of explain and report as objects. `json` holds the complete result; attributes give its parts."""

from __future__ import annotations

import html
import json
from typing import Any, Mapping

from fusec import _program, _report
from fusec._report import Report


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
            f"{_report.bytes(self.bytes_before)} moved -> {_report.bytes(self.bytes)} at {_report.dims(self.dims)})"
        )

    def _repr_html_(self) -> str:
        kernels = [
            [k.name, k.kind, ", ".join(dict.fromkeys(k.ops)), ", ".join(k.modules), _report.bytes(k.bytes_read), _report.bytes(k.bytes_written)]
            for k in self.kernels
        ]
        edges = [[e.producer_kernel, e.consumer_kernel, f"{e.tensor} {e.type}", _report.bytes(e.bytes), e.reason] for e in self.not_fused]
        text = _report.title(repr(self)[len("fusec.Explanation(") : -1])
        text += _report.table(["kernel", "class", "ops", "modules", "reads", "writes"], kernels)
        if edges:
            text += _report.title("What still crosses memory, and why") + _report.table(["from", "to", "tensor", "bytes", "why"], edges)
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
