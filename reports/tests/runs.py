"""Synthetic runs, written and loaded the way real ones are."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from harness.record.cell import Cell, Delegation, LimitationRef, Numerics, Status
from harness.record.folder import RUN_FILE, RunWriter, format_now, load
from harness.record.host import Environment
from harness.record.run import BackendState, Run, RunInfo
from harness.record.severity import Severity

TARGETS = ("portable:fp32", "xnnpack:fp32", "xnnpack:int8", "xnnpack:int8_dynamic", "tosa:fp",
           "tosa:int", "tosa:mxfp8_e4m3", "mlx:fp32", "mlx:int4", "metal:fp32")  # fmt: skip

OPS = ("add", "sub", "mul", "div", "relu", "sigmoid", "tanh", "gelu", "softmax", "layer_norm",
       "linear", "conv2d", "conv_transpose2d", "avg_pool2d", "max_pool2d", "bmm", "mm", "cat",
       "permute", "slice", "index_select", "scatter", "cumsum", "argmax", "where", "upsample",
       "lstm", "sdpa", "embedding", "mobilenet_v2", "llama_block", "whisper_encoder")  # fmt: skip

VARIANTS = ("rank2", "channels_last", "broadcast", "zero_size", "dynamic")


def cell(case: str = "add/rank2", target: str = "xnnpack:fp32", **fields: Any) -> Cell:
    """A cell that passed with everything delegated, with changed ``fields``, and without fields
    that its status excludes."""
    given: dict[str, Any] = {
        "status": Status.PASSED,
        "op": case.partition("/")[0],
        "suite": "ops",
        "runtime": "native",
        "delegation": Delegation(
            delegates=1, delegated_nodes=2, delegated_ops={"aten.add.Tensor": 2}
        ),
        "numerics": [numerics()],
        "stages": {"export": 0.12, "lower": 0.3, "serialize": 0.001, "run": 0.00004},
        "seconds": 0.45,
        "overhead": 0.02,
        "program_bytes": 2048,
        "planned_memory": [4096],
    }
    return Cell(case=case, target=target, **(given | _ruled_out(fields.get("status")) | fields))


def _ruled_out(status: Status | None) -> dict[str, Any]:
    if status in (Status.UNAVAILABLE, Status.LOWERED):
        return {"runtime": "none", "numerics": []}
    if status in (Status.XFAILED, Status.XPASSED):
        return {"limitation": LimitationRef(reason="known")}
    return {}


def numerics(**fields: Any) -> Numerics:
    """An output that uses half of its bound, but for ``fields``."""
    given: dict[str, Any] = {
        "call": 0, "output": 0, "dtype": "float32", "shape": [2, 3], "max_abs": 1e-7,
        "mean_abs": 2e-8, "max_ulp": 1.0, "sqnr_db": 140.0, "rel_fro": 1e-7, "cosine": 1.0,
        "bound": 2e-7, "bound_used": 0.5, "exceeding": 0, "elements": 6,
    }  # fmt: skip
    return Numerics(**(given | fields))


def write(
    path: Path,
    cells: Iterable[Cell],
    *,
    expected: Sequence[str] | None = None,
    end: bool = True,
    exit_status: int = 0,
    **info: Any,
) -> Run:
    """Write a run folder with these cells and load it; by default just they were expected."""
    cells = list(cells)
    names = [item.id for item in cells] if expected is None else list(expected)
    given: dict[str, Any] = {
        "started": format_now(),
        "targets": list(dict.fromkeys(item.target for item in cells)),
        "seed": 7,
        "command": ["pytest", "suites/", "-k", "add or mul"],
        "environment": Environment(
            python="3.11.7", platform="Linux 6.1", machine="x86_64", cores=2, host="builder",
            processor="Some CPU", git_commit="0123456789abcdef", git_dirty=True,
            packages={"torch": "2.9.0", "executorch": "1.5.1"},
        ),
    }  # fmt: skip
    writer = RunWriter(path, RunInfo(expected=list(dict.fromkeys(names)), **(given | info)))
    for item in cells:
        writer.append(item)
    writer.close(exit_status=exit_status)
    if not end:
        # Files that a killed run leaves: its start record, and the lines written so far.
        started = json.loads((path / RUN_FILE).read_text())
        started |= {"complete": False, "ended": None, "exit_status": None}
        (path / RUN_FILE).write_text(json.dumps(started))
    return load(path)


def large(path: Path, *, cases: int = 150, broken: bool = True) -> Run:
    """A run like a nightly one: every outcome, 32 operators, ten targets."""
    choose = random.Random(1)
    cells: list[Cell] = []
    expected: list[str] = []
    for number in range(cases):
        op = OPS[number % len(OPS)]
        variant = VARIANTS[number // len(OPS) % len(VARIANTS)]
        for target in TARGETS:
            item = _random_cell(choose, f"{op}/{variant}", target, broken=broken)
            expected.append(item.id)
            if not (broken and choose.random() < 0.01):
                cells.append(item)
    backends = {
        "portable": BackendState(available=True, runtime="native"),
        "xnnpack": BackendState(available=True, runtime="native"),
        "tosa": BackendState(available=True, runtime="reference"),
        "mlx": BackendState(available=False, reason="mlx needs macOS on Apple silicon"),
        "metal": BackendState(available=False, reason="no Metal device on this host"),
    }
    return write(path, cells, expected=expected, exit_status=1, backends=backends)


def _random_cell(choose: random.Random, case: str, target: str, *, broken: bool) -> Cell:
    backend = target.partition(":")[0]
    stages = {name: choose.expovariate(8) for name in ("export", "quantize", "lower", "run")}
    seconds = sum(stages.values()) + 0.01
    common: dict[str, Any] = {"stages": stages, "seconds": seconds, "overhead": 0.01, "seed": 7}
    common["memory"] = {name: round(spent * 2**31) for name, spent in stages.items()}
    common["runtime"] = "reference" if backend == "tosa" else "native"
    nothing: dict[str, Any] = {"runtime": "none", "numerics": [], "delegation": Delegation()}
    if backend == "metal":
        return cell(case, target, status=Status.UNAVAILABLE, stages={}, seconds=0.0001,
                    error="no Metal device on this host", **nothing)  # fmt: skip
    if backend == "mlx":
        return cell(case, target, status=Status.LOWERED, numerics=[],
                    **(common | {"runtime": "none"}))  # fmt: skip
    if backend == "portable":
        left = Delegation(undelegated_nodes=3, undelegated_ops={"aten.add.out": 3})
        return cell(case, target, delegation=left, **common)
    if case.startswith(("scatter", "lstm")) and backend == "tosa":
        reason = LimitationRef(reason="TOSA 1.0 has no such operator",
                               link="https://www.mlplatform.org/tosa/")  # fmt: skip
        return cell(case, target, status=Status.UNSUPPORTED, limitation=reason, **nothing)
    if case.startswith("cumsum"):
        left = Delegation(undelegated_nodes=2, undelegated_ops={"aten.cumsum": 1, "aten.cat": 1})
        return cell(case, target, delegation=left, **common)
    luck = choose.random() if broken else 1.0
    if luck < 0.012:
        used = choose.uniform(1.5, 900)
        severity = list(Severity)[round(used) % len(Severity)]
        worst = numerics(max_abs=0.31, bound=0.31 / used, bound_used=used,
                         sqnr_db=choose.uniform(3, 30), exceeding=4, cosine=0.94,
                         worst_index=[1, 2], worst_actual=0.5, worst_expected=0.81,
                         worst_error=0.31, severity=severity)  # fmt: skip
        return cell(case, target, status=Status.MISMATCH, stage="compare", numerics=[worst],
                    error="output 0: error 0.31 is over its bound", severity=severity,
                    **common)  # fmt: skip
    if luck < 0.025:
        frames = "\n".join(f'  File "lowering.py", line {n}, in visit' for n in range(30))
        return cell(case, target, status=Status.FAILED, stage="lower", error=(
            f"RuntimeError: no visitor for node {choose.randrange(90)} of the partition"),
            traceback=f"Traceback (most recent call last):\n{frames}\nRuntimeError: no visitor",
            **(common | nothing))  # fmt: skip
    if luck < 0.029:
        return cell(case, target, status=Status.CRASHED, stage="run", **(common | nothing),
                    error="the worker died with SIGSEGV while running the program")  # fmt: skip
    if luck < 0.032:
        return cell(case, target, status=Status.TIMEOUT, stage="lower", error="120 s are over",
                    stages={"lower": 119.8}, seconds=120.0, seed=7, **nothing)  # fmt: skip
    if luck < 0.034:
        return cell(case, target, status=Status.XPASSED, **common,
                    limitation=LimitationRef(reason="crashes on zero-sized inputs"),
                    error="passed although a limitation predicts a failure")  # fmt: skip
    if luck < 0.06:
        reason = LimitationRef(
            reason="per-channel weights of rank 1 are not quantized",
            link="https://github.com/pytorch/executorch/issues/20014",
        )
        return cell(case, target, status=Status.XFAILED, stage="quantize", limitation=reason,
                    error="ValueError: expected rank 2", **(common | nothing))  # fmt: skip
    taken = Delegation(delegates=choose.randint(1, 3), delegated_nodes=6, undelegated_nodes=1,
                       delegated_ops={"aten.mm.default": 4, "aten.add.Tensor": 2},
                       undelegated_ops={"aten.permute_copy.default": 1})  # fmt: skip
    exact = numerics(max_abs=0.0, sqnr_db=math.inf, bound_used=0.0, max_ulp=0.0)
    outputs = [exact if choose.random() < 0.2 else numerics(bound_used=choose.uniform(0.01, 0.9))]
    return cell(case, target, delegation=taken, numerics=outputs, **common)
