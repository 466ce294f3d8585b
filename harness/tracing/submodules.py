"""Finds the smallest failing submodule of a module that does not export or quantize.

Such a module has no graph to reduce.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.execution.process_lock import hold_process_lock
from harness.model.case import CallInputs, Case, Inputs, arguments, make_call
from harness.model.recipe import Recipe
from harness.numerics.kernels.control_flow import compilation_disabled
from harness.tracing.trial import TrialResult, TrialRunner
from harness.vendors.torch import tree_map


@dataclass(frozen=True)
class FailingSubmodule:
    """A submodule as a case of its own, and its result.

    Attributes:
        case: the submodule with its inputs.
        recipe: the recipe it was lowered with; weights and inputs already have their dtype.
        result: its result, red for the same reason as the whole.
        note: names the submodule.
    """

    case: Case
    recipe: Recipe
    result: TrialResult
    note: str


def find_smallest_submodule(runner: TrialRunner, whole: TrialResult) -> FailingSubmodule:
    """Descend into the submodule that fails like the whole, with the inputs that it is called with.

    Args:
        runner: tries the submodules.
        whole: the result of the module itself; its case was built.
    """
    assert whole.tester is not None
    recipe = replace(runner.recipe, dtype="float32")
    module, inputs = whole.tester.built.module, whole.tester.built.inputs
    path, outcome = "", whole
    case = _make_case(runner, module, inputs)
    while True:
        for name, child, given in _record_child_calls(module, inputs):
            runner.on_progress(f"submodule {f'{path}.{name}'.lstrip('.')}")
            smaller = _make_case(runner, child, given)
            tried = runner.try_case(smaller, recipe, "run")
            if tried.is_red and tried.signature == whole.signature:
                path, module, inputs = f"{path}.{name}".lstrip("."), child, given
                case, outcome = smaller, tried
                break
        else:
            break
    kind = type(module).__name__
    note = f"submodule {path} ({kind})" if path else "no submodule of it fails for this reason"
    return FailingSubmodule(case, recipe, outcome, note)


def _make_case(runner: TrialRunner, module: torch.nn.Module, given: CallInputs) -> Case:
    return Case(f"{runner.case.name}/reduced", lambda: (module, *arguments(given)))


def _record_child_calls(
    module: torch.nn.Module, inputs: CallInputs
) -> list[tuple[str, torch.nn.Module, CallInputs]]:
    """Return the children that a run of the module calls, with the inputs of their first calls."""
    calls: dict[str, tuple[str, torch.nn.Module, CallInputs]] = {}

    def watch(name: str, child: torch.nn.Module) -> Any:
        def hook(_: torch.nn.Module, args: Inputs, kwargs: dict[str, Any]) -> None:
            if name not in calls:
                calls[name] = (name, child, tree_map(_copy, make_call(args, kwargs)))

        return child.register_forward_pre_hook(hook, with_kwargs=True)

    handles = [watch(name, child) for name, child in _list_children(module)]
    try:
        with hold_process_lock(), torch.no_grad(), compilation_disabled():
            args, kwargs = arguments(tree_map(_copy, inputs))
            module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return list(calls.values())


def _list_children(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Return the children, and in place of lists, which are never called, the members of these."""
    found = []
    for name, child in module.named_children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            found += [(f"{name}.{inner}", each) for inner, each in _list_children(child)]
        else:
            found.append((name, child))
    return found


def _copy(item: Any) -> Any:
    return item.detach().clone() if isinstance(item, torch.Tensor) else item
