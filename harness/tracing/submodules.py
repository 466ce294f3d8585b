"""The smallest submodule of a module that does not export or quantize: it has no graph to cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.execution.process_lock import exclusive
from harness.model.case import Case, Given, Inputs, arguments, named
from harness.model.recipe import Recipe
from harness.numerics.control_flow import uncompiled
from harness.tracing.trial import Bench, Outcome
from harness.vendors.torch import tree_map


@dataclass(frozen=True)
class Submodule:
    """A part of a module as a case of its own, and what became of it.

    Attributes:
        case: the part, with what it is called with.
        recipe: how it was lowered: weights and inputs have their dtype already.
        outcome: red for the reason of the whole.
        note: which part it is.
    """

    case: Case
    recipe: Recipe
    outcome: Outcome
    note: str


def smallest_submodule(bench: Bench, whole: Outcome) -> Submodule:
    """Descend into whichever submodule fails as the whole does, fed what it is called with.

    Args:
        bench: where submodules are tried.
        whole: the outcome of the module itself; its case was built.
    """
    assert whole.tester is not None
    recipe = replace(bench.recipe, dtype="float32")
    module, inputs = whole.tester.built.module, whole.tester.built.inputs
    path, outcome = "", whole
    case = _case(bench, module, inputs)
    while True:
        for name, child, given in _called(module, inputs):
            bench.say(f"submodule {f'{path}.{name}'.lstrip('.')}")
            smaller = _case(bench, child, given)
            tried = bench.attempt_case(smaller, recipe, "run")
            if tried.is_red and tried.reason == whole.reason:
                path, module, inputs = f"{path}.{name}".lstrip("."), child, given
                case, outcome = smaller, tried
                break
        else:
            break
    kind = type(module).__name__
    note = f"submodule {path} ({kind})" if path else "no submodule of it fails for this reason"
    return Submodule(case, recipe, outcome, note)


def _case(bench: Bench, module: torch.nn.Module, given: Given) -> Case:
    return Case(f"{bench.case.name}/reduced", lambda: (module, *arguments(given)))


def _called(module: torch.nn.Module, inputs: Given) -> list[tuple[str, torch.nn.Module, Given]]:
    """The children that a run of the module calls, with what the first call of each is."""
    calls: dict[str, tuple[str, torch.nn.Module, Given]] = {}

    def watch(name: str, child: torch.nn.Module) -> Any:
        def hook(_: torch.nn.Module, args: Inputs, kwargs: dict[str, Any]) -> None:
            if name not in calls:
                calls[name] = (name, child, tree_map(_copy, named(args, kwargs)))

        return child.register_forward_pre_hook(hook, with_kwargs=True)

    handles = [watch(name, child) for name, child in _children(module)]
    try:
        with exclusive(), torch.no_grad(), uncompiled():
            args, kwargs = arguments(tree_map(_copy, inputs))
            module(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return list(calls.values())


def _children(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Children, and those of lists, which are never called themselves."""
    found = []
    for name, child in module.named_children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            found += [(f"{name}.{inner}", each) for inner, each in _children(child)]
        else:
            found.append((name, child))
    return found


def _copy(item: Any) -> Any:
    return item.detach().clone() if isinstance(item, torch.Tensor) else item
