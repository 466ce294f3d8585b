"""What the cells of one case compute alike: the exported program, the runs that no target has a
part in, and the bounds of those targets that round alike where this program rounds.

A cell builds its module anew. What an earlier one found counts for it where its state, its inputs
and what eager makes of them are the same, bit by bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram

from harness.model.case import Built, Case, Given
from harness.model.precision import Asked, Precision, answer_of
from harness.numerics.determinism import LARGE
from harness.numerics.formats.semantics import GENERIC
from harness.numerics.module_runs import EagerRuns, Widened
from harness.numerics.oracle import Reference, bounded
from harness.numerics.unperturbed import Exact, run_exactly, values_of
from harness.pipeline.reference.calls import written_buffers
from harness.pipeline.reference.unchanged import Snapshot, bytes_of, is_plain
from harness.vendors.torch import tree_leaves

_PLAIN = (bool, int, float, str, type(None))

# Elements of state, inputs and outputs up to which a cell's reference is looked for among those of
# earlier cells: a second of hashing, where a reference takes minutes.
_MOST_COMPARED = 2**28
# Bytes of a reference that stays for the next cell. Of a large module its outputs are all that
# stays: what its runs met on the way may take a thousand times as much.
_MOST_HELD = 2**28

# An exported program, how it was, and a digest of what it held.
_Kept = tuple[ExportedProgram, Snapshot, str | None]


@dataclass
class Siblings:
    """What the case whose cells ran last has; small things, because they stay until another case's
    cell comes."""

    _case: Case | None = None
    _exported: dict[Hashable, tuple[ExportedProgram, Snapshot, str | None]] = field(
        default_factory=dict
    )
    _exact: dict[Hashable, Exact] = field(default_factory=dict)
    _references: dict[Hashable, list[tuple[Asked, Reference]]] = field(default_factory=dict)

    def export(
        self,
        case: Case,
        built: Built,
        runs: EagerRuns,
        strict: bool,
        make: Callable[[], ExportedProgram],
    ) -> ExportedProgram:
        """The exported program of a case's own module, with sizes that are numbers.

        A program is handed out as long as nobody has changed it or what it holds. One that writes
        to buffers never is, nor one of several graphs.

        Args:
            case: which one it is.
            built: what it built.
            runs: eager runs of the cell.
            strict: how it is exported.
            make: exports it.
        """
        self._enter(case)
        key = _digest(_findings(built, built.calls, runs)), runs.seed, strict
        if key[0] is None:
            return make()
        if (known := self._exported.get(key)) is not None:
            program, before, held = known
            if before.holds(program) and _held_by(program) == held:
                return program
        program = make()
        if is_plain(program) and not written_buffers(program):
            self._exported[key] = program, Snapshot(program), _held_by(program)
        return program

    def refer(
        self,
        case: Case,
        built: Built,
        calls: Sequence[Given],
        precision: Precision,
        runs: EagerRuns,
        changed: Collection[int] = (),
    ) -> Reference:
        """The reference of a case's own module with the usual meaning of operators; see
        :func:`harness.numerics.oracle.refer`.

        Args:
            case: which one it is.
            built: what it built.
            calls: inputs of each call.
            precision: rounding model of the target.
            runs: eager runs of the cell.
            changed: positions of flat inputs that the program changes.

        Raises:
            NotDeterministic: two runs differ.
        """
        self._enter(case)
        module = built.module
        digest = _digest(_findings(built, calls, runs), _MOST_COMPARED)
        key = digest, runs.seed, tuple(sorted(changed))
        known = self._references.get(key, []) if digest is not None else []
        for asked, reference in known:
            if all(answer_of(precision, each) == said for each, said in asked.answers.items()):
                return reference
        exact = self._exact.get(key) if digest is not None else None
        wide = Widened(module, calls)
        if exact is None:
            exact = run_exactly(
                module, calls, runs.seed, GENERIC, changed=changed, runs=runs, wide=wide
            )
        asked = Asked(precision)
        reference = bounded(exact, module, calls, asked, runs.seed, wide=wide)
        if digest is not None and not exact.is_large:
            self._exact[key] = exact
        if digest is not None and _size(reference) <= _MOST_HELD:
            self._references.setdefault(key, []).append((asked, reference))
        return reference

    def _enter(self, case: Case) -> None:
        if case is not self._case:
            self._case, self._exported, self._exact, self._references = case, {}, {}, {}


def _findings(built: Built, calls: Sequence[Given], runs: EagerRuns) -> list[Any]:
    """What tells a module from another that the same case built."""
    returned = [leaf for call in runs(built.module, calls) for leaf in values_of(call)]
    return [*built.state, *tree_leaves(list(calls)), *returned]


def _held_by(program: ExportedProgram) -> str | None:
    """Of what a program holds: a write to ``.data`` is not counted by its tensor."""
    return _digest([*program.state_dict.values(), *program.constants.values()])


def _size(reference: Reference) -> int:
    """Bytes of the tensors that a reference holds."""
    held = (reference.oracle, reference.bound, reference.eager, reference.alternatives)
    return sum(leaf.nbytes for leaf in tree_leaves(held) if isinstance(leaf, torch.Tensor))


def _digest(values: Sequence[Any], most: int = LARGE) -> str | None:
    """Of tensors, bit by bit, and plain values; None where there are others, or more elements than
    ``most``."""
    found = hashlib.blake2b(digest_size=16)
    if sum(value.numel() for value in values if isinstance(value, torch.Tensor)) > most:
        return None
    for leaf in values:
        data = bytes_of(leaf) if isinstance(leaf, torch.Tensor) else None
        if data is not None:
            what = leaf.dtype, tuple(leaf.shape), leaf.stride()
            found.update(repr(what).encode())
            found.update(data)
        elif type(leaf) in _PLAIN:
            found.update(repr(leaf).encode())
        else:
            return None
    return found.hexdigest()
