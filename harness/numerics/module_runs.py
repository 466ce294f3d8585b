"""Run a module for a sequence of calls: as it is, or under a dispatch mode in float64.

The module is left as it was: state and inputs are copies. State persists over the calls of one run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.model.case import Given, arguments
from harness.model.copies import copy_tensor
from harness.model.seeding import seeded_with
from harness.numerics.arithmetic import Float64Mode, storage_of, wide_dtype
from harness.numerics.control_flow import uncompiled
from harness.numerics.dtypes import mark
from harness.numerics.kernels.threads import one_thread
from harness.vendors.torch import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Returned:
    """What one call of a module returned.

    Attributes:
        spec: the tree of its outputs.
        outputs: the leaves; tensors are copies, numbers, None and the like as they are.
        inputs: inputs as the call left them, by their position among the flat inputs.
        wrote_state: whether the call wrote to a parameter or buffer, be it the same value.
    """

    spec: TreeSpec
    outputs: list[Any]
    inputs: dict[int, torch.Tensor]
    wrote_state: bool = False

    def equals(self, other: Returned) -> bool:
        """Whether another call returned the same: types, shapes, dtypes and values, NaN included,
        and left the same inputs changed."""
        if self.spec != other.spec or self.inputs.keys() != other.inputs.keys():
            return False
        mine, others = (
            [*each.outputs, *(each.inputs[position] for position in sorted(each.inputs))]
            for each in (self, other)
        )
        return all(
            type(one) is type(two)
            and (_same(one, two) if isinstance(one, torch.Tensor) else one == two)
            for one, two in zip(mine, others, strict=True)
        )


class Widened:
    """State and inputs of a module in float64, for one run after another.

    Widening a large model costs as much as running it, so that runs share what none of them writes
    to. Each finds all tensors as they were given.

    Args:
        module: what is run; left as it is.
        calls: inputs of each call, likewise.
    """

    def __init__(self, module: torch.nn.Module, calls: Sequence[Given]) -> None:
        self._state = _state(module)
        self._leaves, self._spec = tree_flatten(list(calls))
        # What was tied stays tied; inputs are apart, though one tensor be given twice.
        self._names = {name: f"state {id(tensor)}" for name, tensor in self._state.items()}
        self._given: dict[str, Any] = {
            self._names[name]: tensor for name, tensor in self._state.items()
        }
        self._given |= {f"input {at}": leaf for at, leaf in enumerate(self._leaves)}
        self._wide: dict[str, tuple[Any, int]] = {}
        self._storages: set[int] = set()
        self.renew(())

    @property
    def elements(self) -> int:
        """How many there are."""
        return sum(tensor.numel() for tensor in _tensors(list(self._given.values())))

    def of_a_run(self) -> tuple[State, list[Given]]:
        """State and calls, in containers that the run may change."""
        state = {name: self._wide[key][0] for name, key in self._names.items()}
        leaves = [self._wide[f"input {at}"][0] for at in range(len(self._leaves))]
        return state, tree_unflatten(leaves, self._spec)

    def own(self, item: Any) -> Any:
        """An item that no later run changes: a copy, where it shares memory with what is here."""
        return _copy(item) if storage_of(item) in self._storages else item

    def renew(self, written: Collection[int | None]) -> None:
        """Widen again what has been written to.

        Args:
            written: storages that operators wrote to.
        """
        for key, given in self._given.items():
            wide, version = self._wide.get(key, (None, 0))
            if wide is None or storage_of(wide) in written or _version(wide) != version:
                wide = _widen_copy(given)
                self._wide[key] = wide, _version(wide)
        storages = (storage_of(wide) for wide, _ in self._wide.values())
        self._storages = {storage for storage in storages if storage is not None}


def run_calls(
    module: torch.nn.Module,
    calls: Sequence[Given],
    seed: int = 0,
    inputs: Collection[int] | None = None,
    within: AbstractContextManager[Any] | None = None,
) -> list[Returned]:
    """Run a module eagerly for each call.

    Args:
        module: what is run.
        calls: inputs of each call.
        seed: seeds the generators that the module may draw from; they are restored after.
        inputs: positions of flat inputs to report as the call left them; None for those that it
            changed.
        within: what it runs in, once the generators are seeded.
    """
    state, fresh = _copies(_state(module), _copy), tree_map(_copy, list(calls))
    return _run(module, state, fresh, calls, seed, inputs, within)


class EagerRuns:
    """Eager runs of modules with one seed, each made once: what one stage has seen, the next one
    need not run again.

    Attributes:
        seed: seeds the generators that a module may draw from.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._kept: dict[torch.nn.Module, tuple[Sequence[Given], list[Returned]]] = {}

    def __call__(self, module: torch.nn.Module, calls: Sequence[Given]) -> list[Returned]:
        """What a module returns for each call; see :func:`run_calls`."""
        known, results = self._kept.get(module, ((), []))
        if not _begin_alike(known, calls):
            results = run_calls(module, calls, self.seed)
            self._kept[module] = calls, results
        return results[: len(calls)]


def _begin_alike(known: Sequence[Given], calls: Sequence[Given]) -> bool:
    """Whether the first calls of one sequence are those of another: the same objects, in the same
    order."""
    leaves, spec = tree_flatten(list(calls))
    others, other_spec = tree_flatten(list(known[: len(calls)]))
    return spec == other_spec and all(map(operator.is_, leaves, others))


@one_thread()
def run_calls_in_float64(
    module: torch.nn.Module,
    calls: Sequence[Given],
    mode: Float64Mode,
    seed: int = 0,
    inputs: Collection[int] = (),
    wide: Widened | None = None,
) -> list[Returned]:
    """Run a module for each call under a mode that holds floating tensors in float64.

    Args:
        module: what is run.
        calls: inputs of each call, in their own dtypes.
        mode: exact or perturbed; used for this run alone.
        seed: as for :func:`run_calls`.
        inputs: positions of flat inputs to report as the call left them.
        wide: state and inputs, where several runs share them.
    """
    wide = Widened(module, calls) if wide is None else wide
    state, wide_calls = wide.of_a_run()
    mode.inputs = _tensors(wide_calls)
    mode.settled.add((wide_calls, state))
    default = torch.get_default_dtype()
    # Integers promote to the default dtype; that must not round the oracle.
    torch.set_default_dtype(torch.float64)
    try:
        with mode.running():
            results = _run(module, state, wide_calls, calls, seed, inputs)
    finally:
        torch.set_default_dtype(default)
        wide.renew(mode.written)
    return [
        replace(
            result,
            outputs=[wide.own(leaf) for leaf in result.outputs],
            inputs={position: wide.own(leaf) for position, leaf in result.inputs.items()},
        )
        for result in results
    ]


def coarsest_dtype(module: torch.nn.Module, calls: Sequence[Given]) -> torch.dtype:
    """The floating dtype with the largest unit among state and inputs, one byte types aside."""
    floating = [
        tensor.dtype
        for tensor in _tensors((calls, _state(module)))
        if tensor.is_floating_point() and tensor.dtype.itemsize > 1
    ]
    return max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)


def _run(
    module: torch.nn.Module,
    state: State,
    calls: Sequence[Given],
    given: Sequence[Given],
    seed: int,
    inputs: Collection[int] | None,
    within: AbstractContextManager[Any] | None = None,
) -> list[Returned]:
    results = []
    with torch.no_grad(), seeded_with(seed), uncompiled(), within or nullcontext():
        for number, (call, original) in enumerate(zip(calls, given, strict=True), start=1):
            before = {name: (tensor, tensor._version) for name, tensor in state.items()}
            args, kwargs = arguments(call)
            # Before the call: what a module puts into a container of its inputs in place of a
            # tensor, as caches do, is no change of that tensor.
            leaves = tree_leaves(call)
            returned = torch.func.functional_call(module, state, args, kwargs, tie_weights=False)
            outputs, spec = tree_flatten(returned)
            after = enumerate(zip(leaves, tree_leaves(original), strict=True))
            results.append(
                Returned(
                    spec,
                    # A module may return its input, or a buffer that the next call changes.
                    [_copy(leaf) for leaf in outputs] if number < len(calls) else outputs,
                    {
                        position: leaf
                        for position, (leaf, old) in after
                        if isinstance(leaf, torch.Tensor)
                        and (not _same(leaf, old) if inputs is None else position in inputs)
                    },
                    any(
                        state[name] is not tensor or state[name]._version != version
                        for name, (tensor, version) in before.items()
                    ),
                )
            )
    return results


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):
        return True
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _state(module: torch.nn.Module) -> State:
    """Parameters and buffers, each place once: a module in several places has one name, tied
    weights have several. (With ``tie_weights`` functional_call puts a copy into the former twice,
    and restores the first copy.)"""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, part in module.named_modules()
        for name, tensor in (*part._parameters.items(), *part._buffers.items())
        if tensor is not None
    }


def _copies(state: State, copy: Callable[[Any], Any]) -> State:
    """Copies of the tensors; what was tied stays tied."""
    made = {id(tensor): copy(tensor) for tensor in state.values()}
    return {name: made[id(tensor)] for name, tensor in state.items()}


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _copy(item: Any) -> Any:
    return copy_tensor(item.detach()) if isinstance(item, torch.Tensor) else item


def _widen_copy(item: Any) -> Any:
    if not isinstance(item, torch.Tensor):
        return item
    copy = item.to(wide_dtype(item.dtype) or item.dtype, copy=True)
    mark(copy, item.dtype)
    return copy


def _version(item: Any) -> int:
    return item._version if isinstance(item, torch.Tensor) else 0
