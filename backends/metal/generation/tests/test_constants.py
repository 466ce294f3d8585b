"""Constants of a program (host tensors) are accepted in every argument position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import (
    tree_leaves,
    tree_map_only,
    tree_structure as structure_of,
    tree_unflatten,
)

from backends.metal.generation.generate import generate
from backends.metal.generation.host_tensor import HostTensor, to_host
from backends.metal.generation.pretend import pretend_mps
from backends.metal.tests.programs import Apply, partition
from harness.vendors.torch import FakeTensor, FakeTensorMode, OpOverload

_X, _Y, _LONG = torch.ones(3, 4), torch.ones(3, 4), torch.tensor([1, 0, 2])
_MASK = torch.tensor([[True], [False], [True]])

# Arguments of each operator whose schema has a `Tensor?[]`; None as the first element throughout.
OPTIONAL_LISTS: dict[str, tuple[Any, ...]] = {
    "index.Tensor": (_X, [None, _LONG]),
    "_unsafe_index.Tensor": (_X, [None, _LONG]),
    "_unsafe_masked_index": (_X, _MASK, [None, _LONG], 0.0),
    "_unsafe_masked_index_put_accumulate": (_X, _MASK, [None, _LONG], torch.ones(3, 3)),
    "index_put": (_X, [None, _LONG], torch.ones(3, 3)),
    "index_put_": (_X, [None, _LONG], torch.ones(3, 3)),
    "_unsafe_index_put": (_X, [None, _LONG], torch.ones(3, 3)),
    "_index_put_impl_": (_X, [None, _LONG], torch.ones(3, 3)),
    "_index_put_impl": (_X, [None, _LONG], torch.ones(3, 3)),
}

# One of each way in which an operator takes a `Tensor[]` or a `Tensor?`.
OTHERS: dict[str, tuple[Any, ...]] = {
    "cat": ([_X, _Y, _X],),
    "stack": ([_X, _Y], 1),
    "meshgrid": ([_X[0], _Y[1]],),
    "block_diag": ([_X, _Y],),
    "broadcast_tensors": ([_X, _Y[0]],),
    "einsum": ("ab,cb->ac", [_X, _Y]),
    "_chunk_cat": ([_X, _Y], 0, 2),
    "_foreach_add.List": ([_X, _X], [_Y, _Y]),
    "_foreach_addcmul.Scalar": ([_X], [_Y], [_Y]),
    "linalg_multi_dot": ([_X, torch.ones(4, 2), torch.ones(2, 5)],),
    "lstm.input": (
        torch.ones(2, 3, 4),
        [torch.zeros(1, 3, 5), torch.zeros(1, 3, 5)],
        [torch.ones(20, 4), torch.ones(20, 5), torch.ones(20), torch.ones(20)],
        *(True, 1, 0.0, False, False, False),
    ),
    "linear": (_X, torch.ones(2, 4), torch.ones(2)),
    "clamp.Tensor": (_X, None, _Y),
    "native_batch_norm": (_X, None, torch.ones(4), torch.ones(4), torch.ones(4), False, 0.1, 1e-5),
    "convolution": (torch.ones(1, 2, 6), torch.ones(2, 2, 3), torch.ones(2), [1], [0], [1], False,
                    [0], 1),
    "embedding_bag": (_X, _LONG, torch.tensor([0, 2]), False, 0, False, torch.ones(3)),
    "where.self": (_X > 0, _X, _Y),
}  # fmt: skip


def _overloads() -> Iterator[OpOverload]:
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            yield getattr(packet, overload)


def _named(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found


def test_all_operators_with_lists_of_optional_tensors_are_here() -> None:
    kind = "List[Optional[Tensor]]"
    found = {
        str(op).removeprefix("aten.").removesuffix(".default")
        for op in _overloads()
        if any(str(argument.type) == kind for argument in op._schema.arguments)
        and not any(argument.is_out for argument in op._schema.arguments)
    }
    assert found <= set(OPTIONAL_LISTS)


def _one_constant_each(given: tuple[Any, ...], mode: FakeTensorMode) -> Iterator[tuple[Any, ...]]:
    """The arguments on the device, with one tensor after the other as a constant, and all fake."""
    leaves, tree = tree_leaves(given), structure_of(given)
    tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for constant in (*tensors, None):
        made = [
            (leaf if at == constant else mode.from_tensor(leaf)) if at in tensors else leaf
            for at, leaf in enumerate(leaves)
        ]
        yield tree_unflatten(made, tree)


@pytest.mark.parametrize("name", [*OPTIONAL_LISTS, *OTHERS])
def test_a_constant_is_accepted_in_every_position(name: str) -> None:
    op, given = _named(name), {**OPTIONAL_LISTS, **OTHERS}[name]
    hosts = tree_map_only(torch.Tensor, to_host, given)
    with pretend_mps(lambda *args: []), FakeTensorMode() as mode:
        *constant, expected = (
            tree_leaves(op(*arguments)) for arguments in _one_constant_each(hosts, mode)
        )
    assert constant
    for results in constant:
        assert [type(one) for one in results] == [FakeTensor] * len(expected)
        assert [(one.shape, one.dtype, one.device) for one in results] == [
            (one.shape, one.dtype, one.device) for one in expected
        ]


class _Held(torch.nn.Module):
    """Calls a function with its input and constants."""

    def __init__(self, function: Any, *constants: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for number, constant in enumerate(constants):
            self.register_buffer(f"held{number}", constant)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.function(x, *self.buffers())
        return result


@pytest.mark.parametrize(
    "index",
    [
        lambda x, i: x[:, i],
        lambda x, i: x[..., i],
        lambda x, i: x[:, [-1], :],
        lambda x, i: x[:, i[:, None], i],
        lambda x, i: x[i, :, i],
        lambda x, i: x.index_put((torch.arange(3)[:, None], i), x[:, 0]),
        lambda x, i: torch.cat([x[0, 0], i.float()]),
    ],
)
def test_code_is_generated_for_constant_indices(index: Any) -> None:
    generated = generate(partition(_Held(index, _LONG), torch.ones(3, 3, 3)))
    assert not generated.fallbacks


def test_a_number_for_a_kernel_of_the_runtime_is_a_constant_of_the_program() -> None:
    def store(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        copy = x.clone()
        copy[:, mask] = 0.5
        return copy

    generated = generate(partition(_Held(store, _MASK[:, 0]), torch.ones(2, 3)))
    assert "aoti_torch_index_put_out" in generated.wrapper
    assert 0.5 in [value.item() for value in generated.tensors() if value.numel() == 1]


def test_tensors_of_other_code_are_created_as_before() -> None:
    before = torch.tensor
    with pretend_mps(lambda *args: []):
        assert type(torch.tensor(2.0, device="mps:0")) is HostTensor
        assert type(torch.tensor(2.0)) is torch.Tensor
    assert torch.tensor is before
    assert generate(partition(Apply(torch.exp), torch.ones(3))).kernels
