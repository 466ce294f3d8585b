"""The smallest submodule of a module that does not export or quantize: it has no graph to cut."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from harness.backend import Recipe
from harness.case import Case, Inputs
from harness.execution.locking import exclusive
from harness.numerics.control_flow import uncompiled
from harness.tracing.trial import Bench, Outcome


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


def _case(bench: Bench, module: torch.nn.Module, inputs: Inputs) -> Case:
    return Case(f"{bench.case.name}/reduced", lambda: (module, inputs))


def _called(module: torch.nn.Module, inputs: Inputs) -> list[tuple[str, torch.nn.Module, Inputs]]:
    """The children that a run of the module calls, with what the first call of each is."""
    calls: dict[str, tuple[str, torch.nn.Module, Inputs]] = {}

    def watch(name: str, child: torch.nn.Module) -> Any:
        def hook(_: torch.nn.Module, args: Inputs, kwargs: dict[str, Any]) -> None:
            given = _positional(child, args, kwargs)
            if name not in calls and given is not None:
                calls[name] = (name, child, tree_map(_copy, given))

        return child.register_forward_pre_hook(hook, with_kwargs=True)

    handles = [watch(name, child) for name, child in _children(module)]
    try:
        with exclusive(), torch.no_grad(), uncompiled():
            module(*tree_map(_copy, inputs))
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


def _positional(
    module: torch.nn.Module, args: Inputs, kwargs: dict[str, Any]
) -> tuple[Any, ...] | None:
    """What a module is called with, as positional inputs; None where that is not possible."""
    if not kwargs:
        return args
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return None if bound.kwargs else bound.args


def _copy(item: Any) -> Any:
    return item.detach().clone() if isinstance(item, torch.Tensor) else item
