"""Run a module for a sequence of calls, in eager or under a dispatch mode in float64.

The module is not changed: state and inputs are copies. State persists over the calls of one run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.model.case import CallInputs, arguments
from harness.model.copies import copy_tensor
from harness.model.seeding import seed_generators_with
from harness.numerics.arithmetic import Float64Mode, get_storage_id
from harness.numerics.dtypes import widen_copy
from harness.numerics.kernels.control_flow import compilation_disabled
from harness.numerics.kernels.threads import one_thread
from harness.vendors.torch import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class CallResult:
    """The result of one call of a module.

    Attributes:
        spec: the tree of its outputs.
        outputs: the leaves; tensors are copies, numbers, None and the like as they are.
        inputs: inputs after the call, by their position among the flat inputs.
        wrote_state: whether the call wrote to a parameter or buffer, even the same value.
    """

    spec: TreeSpec
    outputs: list[Any]
    inputs: dict[int, torch.Tensor]
    wrote_state: bool = False

    def equals(self, other: CallResult) -> bool:
        """Whether another call returned the same types, shapes, dtypes and values (NaN equals NaN),
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


class Float64State:
    """State and inputs of a module in float64, for consecutive runs.

    Widening a large model costs as much as running it, so that runs share the tensors that none of
    them writes to. Each run starts with the original values.

    Args:
        module: the module to run; not changed.
        calls: inputs of each call; not changed.
    """

    def __init__(self, module: torch.nn.Module, calls: Sequence[CallInputs]) -> None:
        self._state = _state(module)
        self._leaves, self._spec = tree_flatten(list(calls))
        # Tied parameters stay tied; inputs are separate, even if one tensor is given twice.
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
        """Number of elements of state and inputs."""
        return sum(tensor.numel() for tensor in _tensors(list(self._given.values())))

    def make_run_arguments(self) -> tuple[State, list[CallInputs]]:
        """Return state and calls in containers that the run may change."""
        state = {name: self._wide[key][0] for name, key in self._names.items()}
        leaves = [self._wide[f"input {at}"][0] for at in range(len(self._leaves))]
        return state, tree_unflatten(leaves, self._spec)

    def copy_if_shared(self, item: Any) -> Any:
        """Return an item that no later run changes: a copy if it shares memory with this state."""
        return _copy(item) if get_storage_id(item) in self._storages else item

    def renew(self, written: Collection[int | None]) -> None:
        """Widen tensors again that a run has written to.

        Args:
            written: storages that operators wrote to.
        """
        for key, given in self._given.items():
            wide, version = self._wide.get(key, (None, 0))
            if wide is None or get_storage_id(wide) in written or _version(wide) != version:
                wide = widen_copy(given)
                self._wide[key] = wide, _version(wide)
        storages = (get_storage_id(wide) for wide, _ in self._wide.values())
        self._storages = {storage for storage in storages if storage is not None}


def run_calls(
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    seed: int = 0,
    inputs: Collection[int] | None = None,
    within: AbstractContextManager[Any] | None = None,
) -> list[CallResult]:
    """Run a module eagerly for each call.

    Args:
        module: the module to run.
        calls: inputs of each call.
        seed: seeds the generators that the module may draw from; they are restored after.
        inputs: positions of flat inputs to report as the call left them; None for the inputs that
            it changed.
        within: context manager to run in, entered after seeding.
    """
    state, fresh = _copies(_state(module), _copy), tree_map(_copy, list(calls))
    return _run(module, state, fresh, calls, seed, inputs, within)


class EagerRuns:
    """Eager runs of modules with one seed. Each run is made once and shared by the stages.

    Attributes:
        seed: seeds the generators that a module may draw from.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._results: dict[torch.nn.Module, tuple[Sequence[CallInputs], list[CallResult]]] = {}

    def __call__(self, module: torch.nn.Module, calls: Sequence[CallInputs]) -> list[CallResult]:
        """Return the results of a module for each call; see :func:`run_calls`."""
        known, results = self._results.get(module, ((), []))
        if not _is_prefix(calls, known):
            results = run_calls(module, calls, self.seed)
            self._results[module] = calls, results
        return results[: len(calls)]

    def with_inputs(
        self, module: torch.nn.Module, calls: Sequence[CallInputs], inputs: Collection[int]
    ) -> list[CallResult]:
        """Return the results with the inputs at these positions, whether they changed or not."""
        known = self(module, calls)
        if all(call.inputs.keys() == set(inputs) for call in known):
            return known
        return run_calls(module, calls, self.seed, inputs)


def _is_prefix(calls: Sequence[CallInputs], known: Sequence[CallInputs]) -> bool:
    """Whether ``known`` begins with ``calls``: the same objects, in the same order."""
    leaves, spec = tree_flatten(list(calls))
    others, other_spec = tree_flatten(list(known[: len(calls)]))
    return spec == other_spec and all(map(operator.is_, leaves, others))


@one_thread()
def run_calls_in_float64(
    module: torch.nn.Module,
    calls: Sequence[CallInputs],
    mode: Float64Mode,
    seed: int = 0,
    inputs: Collection[int] = (),
    wide: Float64State | None = None,
) -> list[CallResult]:
    """Run a module for each call under a mode that keeps floating tensors in float64.

    Args:
        module: the module to run.
        calls: inputs of each call, in their own dtypes.
        mode: exact or perturbed; used for this run alone.
        seed: as for :func:`run_calls`.
        inputs: positions of flat inputs to report as the call left them.
        wide: state and inputs, where several runs share them.
    """
    wide = Float64State(module, calls) if wide is None else wide
    state, wide_calls = mode.round_given(wide.make_run_arguments())
    mode.inputs = _tensors(wide_calls)
    default = torch.get_default_dtype()
    # Integers promote to the default dtype, which must not round the oracle.
    torch.set_default_dtype(torch.float64)
    try:
        with mode.running():
            results = _run(
                module, state, wide_calls, calls, seed, inputs, begin_call=mode.begin_call
            )
    finally:
        torch.set_default_dtype(default)
        wide.renew(mode.written)
    return [
        replace(
            result,
            outputs=[wide.copy_if_shared(leaf) for leaf in result.outputs],
            inputs={at: wide.copy_if_shared(leaf) for at, leaf in result.inputs.items()},
        )
        for result in results
    ]


def find_coarsest_dtype(module: torch.nn.Module, calls: Sequence[CallInputs]) -> torch.dtype:
    """Return the floating dtype of state and inputs with the largest roundoff, without one-byte
    types."""
    floating = [
        tensor.dtype
        for tensor in _tensors((calls, _state(module)))
        if tensor.is_floating_point() and tensor.dtype.itemsize > 1
    ]
    return max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)


def _run(
    module: torch.nn.Module,
    state: State,
    calls: Sequence[CallInputs],
    given: Sequence[CallInputs],
    seed: int,
    inputs: Collection[int] | None,
    within: AbstractContextManager[Any] | None = None,
    begin_call: Callable[[], None] = lambda: None,
) -> list[CallResult]:
    results = []
    with (
        torch.no_grad(),
        seed_generators_with(seed),
        compilation_disabled(),
        within or nullcontext(),
    ):
        for number, (call, original) in enumerate(zip(calls, given, strict=True), start=1):
            before = {name: (tensor, tensor._version) for name, tensor in state.items()}
            args, kwargs = arguments(call)
            # Before the call: caches replace tensors in a container of inputs by others, which
            # does not change the tensors.
            leaves = tree_leaves(call)
            begin_call()
            returned = torch.func.functional_call(module, state, args, kwargs, tie_weights=False)
            outputs, spec = tree_flatten(returned)
            after = enumerate(zip(leaves, tree_leaves(original), strict=True))
            results.append(
                CallResult(
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
    """Return parameters and buffers by name, each place once: a module in several places has one
    name, tied weights have several. (With ``tie_weights`` functional_call puts a copy into the
    former twice, and restores the first copy.)"""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, part in module.named_modules()
        for name, tensor in (*part._parameters.items(), *part._buffers.items())
        if tensor is not None
    }


def _copies(state: State, copy: Callable[[Any], Any]) -> State:
    """Copy the tensors; tied parameters stay tied."""
    made = {id(tensor): copy(tensor) for tensor in state.values()}
    return {name: made[id(tensor)] for name, tensor in state.items()}


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _copy(item: Any) -> Any:
    return copy_tensor(item.detach()) if isinstance(item, torch.Tensor) else item


def _version(item: Any) -> int:
    return item._version if isinstance(item, torch.Tensor) else 0
