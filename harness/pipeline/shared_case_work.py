"""Share work between the cells of one case: the exported program, the oracle and the references.

A reference is shared between targets with the same rounding in this program. Each cell builds its
own module; it reuses earlier results only where its state, inputs and eager outputs are bitwise
equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.model.case import Built, CallInputs, Case
from harness.model.precision import Precision, RecordingPrecision, answer_question
from harness.numerics.determinism import LARGE
from harness.numerics.formats.semantics import GENERIC_SEMANTICS
from harness.numerics.module_runs import EagerRuns, Float64State
from harness.numerics.oracle import Reference, add_bounds
from harness.numerics.unperturbed import UnperturbedRuns, collect_values, run_unperturbed
from harness.pipeline.reference.calls import find_written_buffers
from harness.pipeline.reference.unchanged import ProgramSnapshot, is_plain, view_bytes
from harness.vendors.torch import tree_leaves

_PLAIN = (bool, int, float, str, type(None))

# Do not share references above this number of elements of state, inputs and outputs: hashing them
# takes about a second at this size, a reference takes minutes.
_MAX_HASHED_ELEMENTS = 2**28
# Do not keep references above this number of bytes.
_MAX_REFERENCE_BYTES = 2**28

# An exported program, its snapshot, and a digest of its tensors.
_Kept = tuple[ExportedProgram, ProgramSnapshot, str | None]


@dataclass
class SharedCaseWork:
    """Results of the case whose cells ran last. They are kept until a cell of another case runs."""

    _case: Case | None = None
    _exported: dict[Hashable, tuple[ExportedProgram, ProgramSnapshot, str | None]] = field(
        default_factory=dict
    )
    _exact: dict[Hashable, UnperturbedRuns] = field(default_factory=dict)
    _references: dict[Hashable, list[tuple[RecordingPrecision, Reference]]] = field(
        default_factory=dict
    )

    def export(
        self,
        case: Case,
        built: Built,
        runs: EagerRuns,
        strict: bool,
        make: Callable[[], ExportedProgram],
    ) -> ExportedProgram:
        """The exported program of a case's own module, with static shapes.

        A program is reused while it and its tensors are unchanged. A program that writes to
        buffers or has several graphs is not reused.

        Args:
            case: the case.
            built: its module and inputs.
            runs: eager runs of the cell.
            strict: export with Dynamo.
            make: exports the module.
        """
        self._switch_case(case)
        key = _digest(_identify_module(built, built.calls, runs)), runs.seed, strict
        if key[0] is None:
            return make()
        if (cached := self._exported.get(key)) is not None:
            program, before, digest = cached
            if before.matches(program) and _digest_tensors(program) == digest:
                return program
        program = make()
        if is_plain(program) and not find_written_buffers(program):
            self._exported[key] = program, ProgramSnapshot(program), _digest_tensors(program)
        return program

    def compute_reference(
        self,
        case: Case,
        built: Built,
        calls: Sequence[CallInputs],
        precision: Precision,
        runs: EagerRuns,
        changed: Collection[int] = (),
    ) -> Reference:
        """The reference of a case's own module, with generic operator semantics.

        See :func:`harness.numerics.oracle.compute_reference`.

        Args:
            case: the case.
            built: its module and inputs.
            calls: inputs of each call.
            precision: rounding model of the target.
            runs: eager runs of the cell.
            changed: positions of flat inputs that the program changes.

        Raises:
            NotDeterministic: two runs differ.
        """
        self._switch_case(case)
        module = built.module
        digest = _digest(_identify_module(built, calls, runs), _MAX_HASHED_ELEMENTS)
        key = digest, runs.seed, tuple(sorted(changed))
        cached = self._references.get(key, []) if digest is not None else []
        for asked, reference in cached:
            if all(
                answer_question(precision, each) == answer for each, answer in asked.answers.items()
            ):
                return reference
        exact = self._exact.get(key) if digest is not None else None
        wide = Float64State(module, calls)
        if exact is None:
            exact = run_unperturbed(
                module, calls, runs.seed, GENERIC_SEMANTICS, changed=changed, runs=runs, wide=wide
            )
        asked = RecordingPrecision(precision)
        reference = add_bounds(exact, module, calls, asked, runs.seed, wide=wide)
        if digest is not None and not exact.is_large:
            self._exact[key] = exact
        if digest is not None and _size(reference) <= _MAX_REFERENCE_BYTES:
            self._references.setdefault(key, []).append((asked, reference))
        return reference

    def _switch_case(self, case: Case) -> None:
        if case is not self._case:
            self._case, self._exported, self._exact, self._references = case, {}, {}, {}


def _identify_module(built: Built, calls: Sequence[CallInputs], runs: EagerRuns) -> list[Any]:
    """State, inputs and eager outputs, which identify a module that the case built."""
    returned = [leaf for call in runs(built.module, calls) for leaf in collect_values(call)]
    return [*built.state, *tree_leaves(list(calls)), *returned]


def _digest_tensors(program: ExportedProgram) -> str | None:
    """A digest of a program's tensors; a tensor's version does not count writes to ``.data``."""
    return _digest([*program.state_dict.values(), *program.constants.values()])


def _size(reference: Reference) -> int:
    """Bytes of the tensors that a reference holds."""
    held = (reference.oracle, reference.bound, reference.eager, reference.alternatives)
    return sum(leaf.nbytes for leaf in tree_leaves(held) if isinstance(leaf, torch.Tensor))


def _digest(values: Sequence[Any], most: int = LARGE) -> str | None:
    """A digest of tensors and plain values.

    None if there are other values, or more elements than ``most``.
    """
    found = hashlib.blake2b(digest_size=16)
    if sum(value.numel() for value in values if isinstance(value, torch.Tensor)) > most:
        return None
    for leaf in values:
        data = view_bytes(leaf) if isinstance(leaf, torch.Tensor) else None
        if data is not None:
            layout = leaf.dtype, tuple(leaf.shape), leaf.stride()
            found.update(repr(layout).encode())
            found.update(data)
        elif type(leaf) in _PLAIN:
            found.update(repr(leaf).encode())
        else:
            return None
    return found.hexdigest()
