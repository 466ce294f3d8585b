"""The folder of a cell: program, inputs, what came and what should have, and how far off may be.

Program and inputs are written before anything is executed: they survive a native crash.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch

from harness.errors import InputError, UsageError
from harness.execution.interface import Interface
from harness.model.files import output_files
from harness.numerics.oracle import Reference
from harness.pipeline.saving.bundled_program import bundled
from harness.pipeline.tester import Tester
from harness.record.cell import Cell
from harness.record.host import environment

PROGRAM, BUNDLED, ABOUT = "program.pte", "program.bpte", "about.json"
_NAMED, _ANY = ".safetensors", ".pt"
_NUMBERS = (torch.Tensor, bool, int, float)


@dataclass
class Keep:
    """Where a cell is kept.

    Attributes:
        folder: is made when there is something to put into it.
        only_red: it goes again when the cell ends well.
        for_run: a disk that refuses costs what would be kept, and not the cell; without, it is an
            error.
        missing: files that are not there, and why.
    """

    folder: Path
    only_red: bool = False
    for_run: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    def lowered(self, tester: Tester) -> None:
        """Write the program, and the inputs of each call.

        Raises:
            UsageError: the disk refuses, and it was asked for.
        """
        files = {PROGRAM: tester.shipped.data}
        self._write(files | _inputs(tester.attempt.calls) | self._about(tester))

    def judged(self, tester: Tester) -> None:
        """Write the outputs beside what they should be, once they were compared.

        Raises:
            UsageError: as for the program.
        """
        if self.only_red and tester.verdict.passed:
            return
        execution, reference = tester.execution, tester.referred
        # One call more than before, where what the last one left behind is looked at.
        files = _inputs(tester.attempt.calls) | _outputs("actual", execution.outputs)
        if reference is None:
            self.missing["expected"] = "the module draws random numbers: its outputs have no values"
        else:
            expected, bounds = _in_order(reference, tester.interface)
            files |= _outputs("expected", expected)
            files |= _outputs("bound", bounds)
            try:
                files[BUNDLED] = bundled(tester.shipped.data, tester.attempt.calls, expected)
            except InputError as error:
                self.missing[BUNDLED] = str(error)
        self._write(files | self._about(tester))

    def ended(self, cell: Cell) -> None:
        """The cell has its status: what is not wanted goes."""
        if self.only_red and not cell.status.is_red:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _about(self, tester: Tester) -> dict[str, bytes]:
        told = {
            "case": tester.case.name,
            "target": str(tester.target),
            "seed": tester.seed,
            "environment": msgspec.to_builtins(environment(Path.cwd())),
            "calls": "in order in one loaded program; state goes from each to the next",
            "missing": self.missing,
        }
        return {ABOUT: (json.dumps(told, indent=1) + "\n").encode()}

    def _write(self, files: dict[str, bytes]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                (self.folder / name).write_bytes(data)
        except OSError as error:
            if not self.for_run:
                raise UsageError(f"cannot write to {self.folder}: {error.strerror}") from error
            with suppress(OSError):
                shutil.rmtree(self.folder)


def _inputs(calls: Sequence[Sequence[Any]]) -> dict[str, bytes]:
    """A file a call, as ``conform exec`` reads them."""
    kind = _NAMED if all(isinstance(x, torch.Tensor) for call in calls for x in call) else _ANY
    return {f"inputs.{number}{kind}": _call(call, kind) for number, call in enumerate(calls)}


def _call(call: Sequence[Any], kind: str) -> bytes:
    if kind == _NAMED:
        return safetensors.torch.save(
            {str(index): value.contiguous() for index, value in enumerate(call)}
        )
    buffer = io.BytesIO()
    torch.save(list(call), buffer)
    return buffer.getvalue()


def _outputs(name: str, calls: Sequence[Sequence[Any]]) -> dict[str, bytes]:
    """A file of the values of all calls: by name, or in lists where some are neither tensors nor
    numbers."""
    kind = _NAMED if all(isinstance(x, _NUMBERS) for call in calls for x in call) else _ANY
    return {name + kind: output_files.encode(Path(name + kind), calls)}


def _in_order(
    reference: Reference, interface: Interface
) -> tuple[list[list[Any]], list[list[Any]]]:
    """What each call should return in the order in which the program does, in eager's dtypes, and
    how far off it may be."""
    expected: list[list[Any]] = []
    bounds: list[list[Any]] = []
    for call, places in enumerate(reference.places):
        at = {place.key: index for index, place in enumerate(places)}
        found = [at.get(place.key) for place in interface.places]
        expected.append([None if i is None else _rounded(reference, call, i) for i in found])
        bounds.append([None if i is None else reference.bound[call][i] for i in found])
    return expected, bounds


def _rounded(reference: Reference, call: int, index: int) -> Any:
    oracle, eager = reference.oracle[call][index], reference.eager[call][index]
    return oracle.to(eager.dtype) if isinstance(oracle, torch.Tensor) else oracle
