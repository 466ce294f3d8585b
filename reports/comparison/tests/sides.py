"""Two sides of a comparison, given as words: the old and the new outcome of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.record.cell import Cell, Delegation, LimitationRef, Status
from harness.record.host import Environment
from harness.record.run import BackendState, Run, RunInfo
from harness.record.severity import Severity
from reports.tests.runs import cell, numerics

#: The cell that changes, and the cells that do not.
SUBJECT = "subject/one"
BYSTANDERS = ("add/a", "add/b", "mul/a")

HERE = Environment(host="builder", machine="x86_64", cores=2, python="3.11.7", git_commit="a" * 40)

_NOTHING: dict[str, Any] = {"runtime": "none", "numerics": [], "delegation": Delegation()}


def made(word: str, case: str = SUBJECT, target: str = "xnnpack:fp32") -> Cell | None:
    """A cell with an outcome or a worse measure; None for ``absent`` and ``not_run``."""
    if word in ("absent", "not_run"):
        return None
    fields: dict[str, dict[str, Any]] = {
        "passed": {},
        "undelegated": {"delegation": Delegation(undelegated_nodes=2, undelegated_ops=_ADD)},
        "mismatch": {"status": Status.MISMATCH, "stage": "compare", "error": "1 of 6 exceed"},
        "mismatch by far": {"status": Status.MISMATCH, "stage": "compare", "error": "6 of 6 exceed",
                            "numerics": [numerics(sqnr_db=12.0, bound_used=9.0, exceeding=6)]},
        **{
            f"{prefix}{severity.value}": {
                "status": status, "stage": "compare", "error": "1 of 6 exceed",
                "severity": severity, "limitation": known,
                "numerics": [numerics(bound_used=2.0, exceeding=1, severity=severity,
                                      problem="1 of 6 exceed")],
            }
            for prefix, status, known in (
                ("", Status.MISMATCH, None),
                ("xfailed ", Status.XFAILED, LimitationRef(reason="known")),
            )
            for severity in Severity
        },
        "failed": {"status": Status.FAILED, "stage": "lower", "error": "ValueError: 3", **_NOTHING},
        "failed otherwise": {"status": Status.FAILED, "stage": "export", "error": "KeyError: a",
                             **_NOTHING},
        "crashed": {"status": Status.CRASHED, "stage": "run", "error": "SIGSEGV", **_NOTHING},
        "timeout": {"status": Status.TIMEOUT, "stage": "run", "error": "120 s", **_NOTHING},
        "xpassed": {"status": Status.XPASSED, "limitation": LimitationRef(reason="known")},
        "xfailed": {"status": Status.XFAILED, "stage": "lower", "error": "ValueError: 4",
                    "limitation": LimitationRef(reason="known"), **_NOTHING},
        "lowered": {"status": Status.LOWERED, "runtime": "none", "numerics": []},
        "unsupported": {"status": Status.UNSUPPORTED, "error": "not claimed", **_NOTHING},
        "unavailable": {"status": Status.UNAVAILABLE, "error": "not here", **_NOTHING},
        "worse sqnr": {"numerics": [numerics(sqnr_db=100.0)]},
        "slightly worse sqnr": {"numerics": [numerics(sqnr_db=138.0)]},
        "nan sqnr": {"numerics": [numerics(sqnr_db=float("nan"))]},
        "no numerics": {"numerics": []},
        "more bound": {"numerics": [numerics(bound_used=0.95)]},
        "quality": {"numerics": [numerics(model_sqnr_db=30.0)]},
        "less quality": {"numerics": [numerics(model_sqnr_db=20.0)]},
        "more bytes": {"program_bytes": 4096},
        "more planned memory": {"planned_memory": [8192, 4096]},
        "more time": {"seconds": 9.0},
        "more delegates": {"delegation": Delegation(delegates=3, delegated_nodes=2,
                                                    delegated_ops=_ADD)},
        "less delegated": {"delegation": Delegation(
            delegates=1, delegated_nodes=1, undelegated_nodes=1,
            delegated_ops={"aten.add.Tensor": 1}, undelegated_ops={"aten.add.Tensor": 1})},
        "emulated": {"runtime": "emulated"},
        "conclusive": {"numerics": [numerics(conclusive_share=0.9)]},
        "vacuous": {"numerics": [numerics(conclusive_share=0.0)]},
    }  # fmt: skip
    return cell(case, target, **fields[word])


_ADD = {"aten.add.Tensor": 2}


def side(words: Mapping[str, str], **info: Any) -> Run:
    """A run in memory: unchanged cells passed, and each other cell has the outcome of its word."""
    cells, expected = [], []
    for case, word in {**dict.fromkeys(BYSTANDERS, "passed"), **words}.items():
        found = made(word, case)
        if found is not None:
            cells.append(found)
        if word != "absent":
            expected.append(f"{case}@xnnpack:fp32")
    given: dict[str, Any] = {
        "started": "2026-01-01T00:00:00+00:00", "complete": True, "expected": expected,
        "exit_status": int(any(item.status.is_red for item in cells)), "environment": HERE,
        "targets": ["xnnpack:fp32"], "records": len(cells),
        "backends": {"xnnpack": BackendState(available=True, runtime="native")},
    }  # fmt: skip
    return Run(path=Path("side"), info=RunInfo(**(given | info)), cells=cells)
