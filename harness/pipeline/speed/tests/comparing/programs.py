"""Lower cells, with or without speed, and print a digest of each program.

``python -m harness.pipeline.speed.tests.comparing.programs with CASE TARGET...`` lowers one case;
``without`` in place of ``with`` lowers as ``--no-speed`` does, and ``CONFORM_NO_SPEED=PART,...``
leaves parts out.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from backends.coreml.delegate_id import DELEGATE
from backends.coreml.payload.metadata import find_model
from backends.coreml.payload.reader import parse
from harness import Case, CellOptions, run_cell
from harness.execution import container
from harness.execution.program import Program
from harness.model import registry
from harness.pipeline import speed
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.session.discovery import load_suites

ROOT = Path(__file__).parents[5]

Cells = Iterable[tuple[Case, str]]


def load_cases() -> list[Case]:
    """The cases of all suites, except models and nightly cases."""
    return [
        case
        for suite in load_suites(ROOT / "suites")
        for case in suite.cases
        if not {"model", "nightly"} & case.tags
    ]


def find_cells(cases: Iterable[Case]) -> Iterator[tuple[Case, str]]:
    """The cells of a plain run, by case as a run takes them."""
    for case in cases:
        for target in registry.select_targets(case, None):
            if not registry.is_nightly(case, target, None):
                yield case, str(target)


def take_cells(cases: Iterable[Case], least: int) -> Iterator[tuple[Case, str]]:
    """The cells of the first cases that have so many."""
    taken = 0
    for case in cases:
        if taken >= least:
            return
        for cell in find_cells([case]):
            taken += 1
            yield cell


def hash_program(program: bytes, target: str) -> str:
    """The digest of a program, without names that differ from one lowering to the next."""
    if target.startswith("mlx:"):
        # Upstream puts four digits of a hash of the printed program before the names of its data
        # (mlx/preprocess.py). Where a printed stack names "<eval_with_key>.N", that is how many
        # graphs the process compiled before: two lowerings in a row differ there, too.
        program = re.sub(rb"[0-9a-f]{4}(?=/)", b"....", program)
    if target.startswith("coreml:"):
        program = order_packages(program)
    return hashlib.sha256(program).hexdigest()


def order_packages(program: bytes) -> bytes:
    """A program with CoreML's models at its end, in the order of their keys.

    coremltools gives the files of a package random identifiers, writes them in the order of these,
    and adds today's date; protobuf writes maps in a random order.
    """
    file = container.read(program)
    for plan in file.program.execution_plan:
        for delegate in Program(file, plan.name).delegates:
            if delegate.id == DELEGATE:
                found = find_model(delegate.data, delegate.named_data)
                package = delegate.named_data[found.shared] if found.shared else delegate.data
                program = program.replace(package, b"") + repr(found.interface).encode()
                message = parse(found.model)
                message.description.metadata.ClearField("userDefined")
                program += message.SerializeToString(deterministic=True)
                for _, content in sorted(found.files.items()):
                    program += content if content != found.model else b""
    return program


def lower_cells(cells: Cells, *, with_speed: bool) -> Iterator[tuple[str, str, str, str]]:
    """Lower cells one after the other; with speed, those of a case share what a run lets them.

    Returns:
        Target, case, status, and the digest of the program; the error where there is none.
    """
    if with_speed:
        speed.install()
    shared = SharedCaseWork() if with_speed else None
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.pte")
        options = CellOptions(lower_only=True, save=program, shared_work=shared)
        for case, target in cells:
            program.unlink(missing_ok=True)
            cell = run_cell(case, target, options=options)
            made = hash_program(program.read_bytes(), target) if program.exists() else cell.error
            yield target, case.name, cell.status.value, str(made)


def print_programs(cells: Cells, mode: str) -> None:
    """Print a line a cell. Garbage is collected less often, for time; programs are the same."""
    speed.tune_garbage_collector()
    for line in lower_cells(cells, with_speed=mode == "with"):
        print("PROGRAM", *line)


if __name__ == "__main__":
    mode, name, *targets = sys.argv[1:]
    (asked,) = (case for case in load_cases() if case.name == name)
    chosen = [(asked, target) for target in targets] or find_cells([asked])
    print_programs(chosen, mode)
