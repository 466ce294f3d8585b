"""Write a cell's program, inputs, outputs, expected outputs and bounds to a folder.

Program and inputs are written before execution, so that they survive a native crash.
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
from harness.pipeline.saving.bundled_program import make_bundle
from harness.pipeline.tester import Tester
from harness.record.cell import Cell
from harness.record.host import read_environment

PROGRAM, BUNDLED, ABOUT = "program.pte", "program.bpte", "about.json"
_NAMED, _ANY = ".safetensors", ".pt"
_NUMBERS = (torch.Tensor, bool, int, float)


@dataclass
class CellFolder:
    """The folder that a cell's files are written to.

    Attributes:
        folder: its path; made with the first file.
        only_red: remove the folder if the cell is not red.
        for_run: ignore write errors and remove the folder; otherwise they are raised.
        missing: files that were not written, and why.
    """

    folder: Path
    only_red: bool = False
    for_run: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    def write_program(self, tester: Tester) -> None:
        """Write the program and the inputs of each call.

        Raises:
            UsageError: a file cannot be written, and ``for_run`` is not set.
        """
        files = {PROGRAM: tester.serialized.data}
        self._write(files | _inputs(tester.attempt.calls) | self._about(tester))

    def write_outputs(self, tester: Tester) -> None:
        """Write outputs, expected outputs and bounds after comparison.

        Raises:
            UsageError: a file cannot be written, and ``for_run`` is not set.
        """
        if self.only_red and tester.verdict.passed:
            return
        execution, reference = tester.execution, tester.reference_or_none
        # Write the inputs again: a program with state has one more call.
        files = _inputs(tester.attempt.calls) | _outputs("actual", execution.outputs)
        if reference is None:
            self.missing["expected"] = "the module draws random numbers, so no outputs are expected"
        else:
            expected, bounds = _order_like_program(reference, tester.interface)
            files |= _outputs("expected", expected)
            files |= _outputs("bound", bounds)
            try:
                files[BUNDLED] = make_bundle(tester.serialized.data, tester.attempt.calls, expected)
            except InputError as error:
                self.missing[BUNDLED] = str(error)
        self._write(files | self._about(tester))

    def remove_if_not_red(self, cell: Cell) -> None:
        """Remove the folder if only red cells are kept and this cell is not red."""
        if self.only_red and not cell.status.is_red:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _about(self, tester: Tester) -> dict[str, bytes]:
        about = {
            "case": tester.case.name,
            "target": str(tester.target),
            "seed": tester.seed,
            "environment": msgspec.to_builtins(read_environment(Path.cwd())),
            "calls": "in order, on one loaded program; state carries over from call to call",
            "missing": self.missing,
        }
        return {ABOUT: (json.dumps(about, indent=1) + "\n").encode()}

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
    """A file of inputs for each call, in the format of ``conform exec``."""
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
    """One file with the values of all calls: by name, or in lists if some are not numeric."""
    kind = _NAMED if all(isinstance(x, _NUMBERS) for call in calls for x in call) else _ANY
    return {name + kind: output_files.encode(Path(name + kind), calls)}


def _order_like_program(
    reference: Reference, interface: Interface
) -> tuple[list[list[Any]], list[list[Any]]]:
    """Expected outputs and bounds of each call, in the program's order and eager's dtypes."""
    expected: list[list[Any]] = []
    bounds: list[list[Any]] = []
    for call, places in enumerate(reference.places):
        at = {place.key: index for index, place in enumerate(places)}
        found = [at.get(place.key) for place in interface.positions]
        expected.append([None if i is None else _round_oracle(reference, call, i) for i in found])
        bounds.append([None if i is None else reference.bound[call][i] for i in found])
    return expected, bounds


def _round_oracle(reference: Reference, call: int, index: int) -> Any:
    oracle, eager = reference.oracle[call][index], reference.eager[call][index]
    return oracle.to(eager.dtype) if isinstance(oracle, torch.Tensor) else oracle
