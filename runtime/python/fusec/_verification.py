"""The results of verify and rebuild as objects. `json` holds the complete result; attributes give its parts."""

from __future__ import annotations

from fusec import _report
from fusec._report import Report


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
            [o.kernel or o.name, _report.dims(o.dims), o.against, f"{o.max_abs:.3g}", f"{o.rel_l2:.3g}", f"{o.tolerance:.3g}", o.reason,
             "pass" if o.passed else "FAIL"]
            for o in self.outputs
        ]
        heads = ["output", "dims", "against", "max abs", "relative L2", "tolerance", "reason", ""]
        return _report.title("pass" if self.passed else "FAIL") + _report.table(heads, rows)


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
            [o.kernel, o.name, check.device, _report.dims(o.dims), f"{o.max_abs:.3g}", f"{o.rel_l2:.3g}", f"{o.tolerance:.3g}",
             "pass" if o.passed else "FAIL"]
            for check in self.checks
            for o in check.outputs
        ]
        timed = [
            [t.kernel, check.device, _report.dims(t.dims), f"{t.original_us:.4g}", f"{t.edited_us:.4g}"]
            for check in self.checks
            for t in check.times
        ]
        heads = ["kernel", "output", "device", "dims", "max abs", "relative L2", "tolerance", ""]
        page = _report.title(self.result)
        page += _report.table(heads, compared) if compared else ""
        return page + (_report.table(["kernel", "device", "dims", "original us", "edited us"], timed) if timed else "")
