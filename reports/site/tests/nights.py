"""A few synthetic nightly runs in one folder, with every feature that the dashboard shows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from harness.record.cell import Cell, Delegation, LimitationRef, Status
from harness.record.host import Environment
from harness.record.run import BackendState
from harness.record.severity import Severity
from reports.tests.runs import cell, large, numerics, write

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}</script>\u2028]]>`${7}"
LONG = "n" * 300
NAMES = ("../../up", "a/../../b", ".", "..", "/etc/passwd", "nul\x00", LONG, EVIL, "ünïcode/名前",
         "a.b/c.d", "CON", "__proto__", "constructor/x")  # fmt: skip


def store(folder: Path, *, nights: int = 5, cases: int = 40) -> Path:
    """Five nightly runs: cells break, are fixed, are flaky, get worse, appear and disappear."""
    base = large(folder.parent / "base", cases=cases)
    for night in range(nights):
        choose = random.Random(night)
        cells = [_aged(item, at, night, choose) for at, item in enumerate(base.cells)]
        if night % 2:
            cells = cells[:-7]
        started = datetime(2026, 1, 1, 2, tzinfo=UTC) + timedelta(days=night)
        write(
            folder / f"night-{night}",
            [item for item in cells if item is not None],
            expected=base.info.expected[: len(base.info.expected) - 10 * (night % 2)],
            started=started.isoformat(timespec="seconds"),
            exit_status=1,
            environment=Environment(
                host="builder", machine="x86_64", processor="Some CPU", cores=2,
                git_commit=f"{night // 2 + 1:040x}", git_dirty=False,
                packages={"torch": f"2.{night // 3}.0"},
            ),
            backends=base.info.backends,
        )  # fmt: skip
    return folder


def _aged(item: Cell, at: int, night: int, choose: random.Random) -> Cell | None:
    luck = choose.random()
    made = msgspec.structs.replace(item)
    if luck < 0.01:
        return None
    if at % 41 == night and made.status is Status.PASSED:
        made.status, made.stage, made.error = Status.FAILED, "lower", f"RuntimeError: node {night}"
        made.traceback = f"Traceback\n  frame {night}\nRuntimeError: node {night}"
    elif at % 37 == 5 and night % 2 and made.status is Status.PASSED:
        made.status, made.stage, made.error = Status.MISMATCH, "compare", "over its bound"
    elif made.severity is not None:
        # Some without a time, as in older records.
        made.severity = [*Severity, None][(at + night) % 5]
    if made.numerics and at % 7 == 0:
        worse = choose.choice([-20.0, -3.0, -2.9, 0.0, 4.0, float("nan"), float("-inf")])
        made.numerics = [
            msgspec.structs.replace(
                output,
                sqnr_db=output.sqnr_db + worse,
                bound_used=output.bound_used * choose.choice([1, 1, 3, 0.1, float("nan")]),
                model_sqnr_db=choose.choice([None, 30.0, 31.5, float("inf")]),
            )
            for output in [*made.numerics, numerics(output=1)][: choose.randint(1, 2)]
        ]
    if at % 11 == 0:
        made.program_bytes += choose.choice([0, 100, 300, 4_000])
        made.planned_memory = [[4_096, 4_100, 6_000, 90_000][(at + night) % 4], 64]
        made.seconds *= choose.choice([1, 1.5, 3, 40])
        made.runtime = choose.choice(["native", "reference", made.runtime])
    if at % 13 == 0 and made.delegation.delegates:
        left = choose.randint(0, 3)
        made.delegation = Delegation(
            delegates=choose.choice([0, 1, 4]), delegated_nodes=6 - left, undelegated_nodes=left,
            delegated_ops={"aten.mm.default": 4 - left, "aten.add.Tensor": 2},
            undelegated_ops={"aten.mm.default": left, "aten.permute_copy.default": 1},
        )  # fmt: skip
    return made


def hostile(folder: Path) -> Path:
    """Two runs in which every text is markup, a script, or a path that leaves its folder."""
    fields: dict[str, Any] = {
        "status": Status.FAILED, "stage": EVIL, "error": EVIL, "traceback": EVIL, "suite": EVIL,
        "tags": [EVIL], "worker": EVIL, "runtime": EVIL, "op": EVIL, "stages": {EVIL: 1.0},
        "memory": {EVIL: 2**30, "lower": 2**20},
        "limitation": LimitationRef(reason=EVIL, link="javascript:alert(3)"),
        "numerics": [numerics(problem=EVIL, dtype=EVIL)],
        "delegation": Delegation(delegates=1, delegated_nodes=1, delegated_ops={EVIL: 1},
                                 undelegated_ops={EVIL: 1, "__proto__": 2}),
    }  # fmt: skip
    cells = [cell(name, **fields) for name in NAMES]
    cells.append(cell("a/b", f"{EVIL}:fp32", **fields))
    cells.append(cell("ok/ok", status=Status.XFAILED, limitation=LimitationRef(
        reason="known", link="https://example.com/a?b=c&d=%22#x")))  # fmt: skip
    for number, name in enumerate(("<img src=x onerror=alert(4)>", "night'\"&<b>")):
        write(
            folder / name,
            cells[number:],
            expected=[*(item.id for item in cells), f"{EVIL}@{EVIL}", EVIL],
            started=f"2026-01-0{number + 1}T02:00:00+00:00",
            problems=[EVIL],
            selection=EVIL,
            backends={EVIL: BackendState(available=False, reason=EVIL)},
            environment=Environment(
                host=EVIL, platform=EVIL, git_commit=EVIL, packages={EVIL: EVIL, "__proto__": "1"}
            ),
        )
    return folder
