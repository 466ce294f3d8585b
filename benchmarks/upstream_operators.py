"""What becomes of upstream's own operator programs (executorch/backends/test/suite/operators).

    python -m benchmarks.upstream_operators [--targets LIST] [-k TEXT] [--out CELLS.jsonl]
    conform run benchmarks/upstream_operators.py --targets portable:fp32,xnnpack:fp32

The first counts cells by status and reason. The second is an ordinary run of the same cases, in
workers and with a run folder. Nobody here wrote the programs: many are outside of what ExecuTorch
can run and are part of its suite all the same, so that they show whether red means wrong.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from executorch.backends.test.suite import operators

from harness import Case, Cell, Inputs, run_cell

TARGETS = "portable:fp32,xnnpack:fp32"
_SHOWN = 100

Test = Callable[..., None]


class _Noted:
    """Stands for upstream's runner: notes programs instead of lowering them."""

    def __init__(self) -> None:
        self._flow = SimpleNamespace(name="conform", quantize=False)
        self.programs: list[tuple[torch.nn.Module, Inputs]] = []

    def lower_and_run_model(self, model: torch.nn.Module, inputs: Any, **_: Any) -> None:
        """Upstream's name for what a test does with a program."""
        self.programs.append((model, tuple(inputs)))


def programs(test: Test) -> list[tuple[torch.nn.Module, Inputs]]:
    """The programs of one of upstream's tests; none where it skips itself."""
    noted = _Noted()
    takes_dtype = "dtype" in inspect.signature(test).parameters
    try:
        test(noted, *[torch.float32] if takes_dtype else [])
    except unittest.SkipTest:
        return []
    return noted.programs


def tests() -> Iterator[tuple[str, Test]]:
    """Upstream's tests, each with the name of its operator and its own: ``add/dtype``."""
    for found in pkgutil.iter_modules(operators.__path__):
        operator = found.name.removeprefix("test_")
        if operator == found.name:
            continue
        module = importlib.import_module(f"{operators.__name__}.{found.name}")
        for name, test in sorted(vars(module).items()):
            if name.startswith("test_") and callable(test):
                variant = name.removeprefix("test_").removeprefix(f"{operator}_")
                yield f"{operator}/{variant}", test


def _cases() -> Iterator[Case]:
    for name, test in tests():
        made = programs(test)
        for index in range(len(made)):

            def build(test: Test = test, index: int = index) -> tuple[torch.nn.Module, Inputs]:
                return programs(test)[index]

            yield Case(
                name if len(made) == 1 else f"{name}_{index}", build, tags=frozenset({"ops"})
            )


CASES = list(_cases())


def reason(cell: Cell) -> str:
    """What cells that ended alike have in common: stage and error, without what is the case's."""
    if cell.error is None:
        return ""
    error = re.sub(r"\b\d[\d.e+-]*\b", "N", cell.error)
    return f"{cell.stage or '-'}: {error[:_SHOWN]}"


def table(cells: Iterable[Cell]) -> Iterator[str]:
    """Counts of one target's cells, by status and reason, most first."""
    counts = Counter((cell.status.value, reason(cell)) for cell in cells)
    statuses: Counter[str] = Counter()
    for (status, _), count in counts.items():
        statuses[status] += count
    for status, total in statuses.most_common():
        yield f"{total:5} {status}"
        alike = Counter({key: count for (key_status, key), count in counts.items()
                         if key and key_status == status})  # fmt: skip
        yield from (f"{count:13} {key}" for key, count in alike.most_common())


def main() -> None:
    """Run the cells and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("-k", default="", metavar="TEXT", help="part of a case's name")
    parser.add_argument("--out", type=Path, help="file that gets a record a line")
    given = parser.parse_args()
    chosen = [case for case in CASES if given.k in case.name]
    for target in given.targets.split(","):
        cells = []
        for case in chosen:
            cell = run_cell(case, target)
            cells.append(cell)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(cell.to_json() + "\n")
            if sys.stderr.isatty():
                print(f"\r{len(cells)}/{len(chosen)} {target}", end="", file=sys.stderr)
        print(f"\n{target}: {len(cells)} programs")
        print("\n".join(table(cells)), flush=True)


if __name__ == "__main__":
    main()
