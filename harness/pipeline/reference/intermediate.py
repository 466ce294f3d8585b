"""Compare intermediate forms of a quantized program with the module.

The reference of a quantized cell is the quantized graph. It includes errors that torch.export and
the quantizer made before quantization, so the forms before it are compared with the module here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from harness.execution.interface import Interface
from harness.model.case import CallInputs
from harness.numerics.compare import compare
from harness.numerics.distribution import compare_draws
from harness.numerics.module_runs import CallResult, EagerRuns, run_calls
from harness.numerics.oracle import Reference
from harness.numerics.unperturbed import collect_places, collect_values
from harness.record.cell import Intermediate
from harness.vendors.torch import TreeSpec

ReferenceFunction = Callable[[Collection[int], bool], Reference]
"""Computes the reference of the module; takes the positions of flat inputs that are written, and
whether to use more runs."""

# The stage that makes each intermediate form of a program, and what a difference means.
CHANGED = "changed the module before anything was quantized"
_FORMS = {
    "exported": ("export", f"torch.export {CHANGED}"),
    "rewritten": ("quantize", f"the quantizer's rewriting {CHANGED}"),
    "quantized": ("quantize", "the module was quantized wrongly"),
}


@dataclass(frozen=True)
class FloatModule:
    """The module that an intermediate form is compared with.

    Attributes:
        module: the float module.
        calls: inputs of each call.
        runs: its eager runs.
        reference: computes its reference; None for a module that draws random numbers: its outputs
            are compared by their distribution.
        narrowed: as :attr:`harness.model.recipe.Recipe.narrowed`.
    """

    module: torch.nn.Module
    calls: Sequence[CallInputs]
    runs: EagerRuns
    reference: ReferenceFunction | None
    narrowed: Mapping[str, str] = field(default_factory=dict)


def compare_form(
    name: str,
    form: torch.nn.Module,
    in_spec: TreeSpec,
    original: FloatModule,
    within: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Intermediate:
    """Run an intermediate form and compare its outputs with the module's.

    Args:
        name: name of the form, for the record.
        form: a module that runs eagerly; it is not changed.
        in_spec: tree of inputs that it was exported with.
        original: the module.
        within: makes a context in which the form runs.
    """
    calls, seed = original.calls, original.runs.seed
    expected = original.runs(original.module, calls)
    with within():
        returned = run_calls(form, calls, seed)
        if all(one.equals(other) for one, other in zip(returned, expected, strict=True)):
            return Intermediate(name=name, identical=original.reference is not None)
        changed = find_written_inputs(expected) | find_written_inputs(returned)
        if any(call.inputs.keys() != changed for call in returned):
            returned = run_calls(form, calls, seed, changed)
    first, values = returned[0], [collect_values(call) for call in returned]
    interface = Interface(in_spec, first.spec, tuple(collect_places(first)))
    if original.reference is None:
        verdict = compare_draws(original.module, calls, values, interface, seed)
    else:
        verdict = compare(
            values,
            original.reference(changed, False),
            interface=interface,
            narrowed=original.narrowed,
            refine=functools.partial(original.reference, changed, True),
        )
    return Intermediate(name=name, numerics=verdict.numerics, problem=verdict.problem)


def find_written_inputs(runs: Sequence[CallResult]) -> set[int]:
    """Return the positions of the flat inputs that a call changes."""
    return {position for call in runs for position in call.inputs}


def find_changed_form(forms: Sequence[Intermediate]) -> tuple[str, str] | None:
    """Find the first intermediate form of a program that differs from the module.

    Returns:
        The stage that made the form, and the difference; None if no form differs.
    """
    wrong = next((form for form in forms if form.problem is not None), None)
    if wrong is None:
        return None
    stage, meaning = _FORMS[wrong.name]
    return stage, f"{meaning}: {wrong.problem}"
