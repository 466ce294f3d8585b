"""Copy modules, including modules that refuse; writes to shared tensors are detected."""

from __future__ import annotations

import copy
import threading
import warnings
from typing import Any, Self

import pytest
import torch

from harness import Case
from harness.errors import CaseError
from harness.model.copies import (
    convert_state,
    copy_module,
    copy_tensor,
    find_wrapper_tensors,
    keep_values,
)


class Pair(torch.Tensor):
    """A wrapper with only the methods that torch requires: no clone, no deepcopy."""

    codes: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, codes: torch.Tensor, scale: torch.Tensor) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=scale.dtype)  # type: ignore[attr-defined]

    def __init__(self, codes: torch.Tensor, scale: torch.Tensor) -> None:
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["codes", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Pair:
        return Pair(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Pair(args[0].codes, args[0].scale)
        if func is torch.ops.aten._to_copy.default and "dtype" in kwargs:
            return Pair(args[0].codes, args[0].scale.to(kwargs["dtype"]))
        raise NotImplementedError(str(func))


class Refusing(torch.Tensor):
    """Holds its values itself and copies nothing."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.clone, torch.Tensor.__deepcopy__):
            raise RuntimeError("no copies")
        return super().__torch_function__(func, types, args, kwargs)


def _pair() -> Pair:
    # executorch's MX weights cannot be deep-copied because a scale has an autograd history.
    return Pair(torch.ones(2, 3, dtype=torch.int8), torch.ones(2, 1, requires_grad=True) * 2)


class Holder(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.tied = self.weight


def test_wrapper_tensors_are_copied_with_their_contents() -> None:
    original = Holder(_pair())
    with pytest.raises(Exception):  # noqa: B017, PT011  (whatever torch raises)
        copy.deepcopy(original)
    made, shared = copy_module(original)
    assert not shared
    assert isinstance(made.weight, Pair)
    assert isinstance(made.weight, torch.nn.Parameter)
    assert made.weight is made.tied
    made.weight.codes.zero_()
    assert bool((original.weight.codes == 1).all())
    assert [type(tensor) for tensor in find_wrapper_tensors(original)] == [Pair, Pair]


def test_wrapped_weights_are_converted_by_their_class() -> None:
    made = convert_state(Holder(_pair()), lambda tensor: tensor.to(torch.bfloat16))
    assert made.weight.dtype == made.weight.scale.dtype == torch.bfloat16
    assert made.weight is made.tied


def test_weights_that_are_computed_are_copied() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        original = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2))
    made, shared = copy_module(original)
    assert not shared
    x = torch.randn(4, 3)
    assert torch.equal(made(x), original(x))


class Locked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.linear = torch.nn.Linear(3, 2)
        self.again = self.linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.lock:
            return self.again(self.linear(x)[..., :1].expand(-1, 3))


def test_objects_that_refuse_to_be_copied_are_shared() -> None:
    original = torch.nn.Sequential(Locked())
    made, _ = copy_module(original)
    assert made[0].lock is original[0].lock
    assert made[0].linear is made[0].again
    assert made[0].linear is not original[0].linear
    assert made[0].linear.weight is not original[0].linear.weight
    x = torch.randn(4, 3)
    assert torch.equal(made(x), original(x))


def test_writes_to_a_shared_tensor_are_noticed() -> None:
    module = torch.nn.ReLU()
    module.table = torch.zeros(3).as_subclass(Refusing)
    case = Case.from_module("copies/shared", module, (torch.randn(3),))
    assert case.make().module.table is module.table
    case.make()
    module.table.add_(1)
    with pytest.raises(CaseError, match=r"table \(Refusing\) cannot be copied.*written to since"):
        case.make()


def test_a_copy_has_no_history_of_gradients() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    made = copy_tensor(weight * 2)
    assert made.is_leaf
    assert not made.requires_grad
    assert copy_tensor(weight).requires_grad


def test_modules_of_inference_mode_are_copied() -> None:
    with torch.inference_mode():
        module = torch.nn.Linear(3, 2)
    built = Case.from_module("copies/inference", module, (torch.randn(1, 3),)).make()
    out = built.cast("bfloat16").module(torch.randn(1, 3, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16
    assert module.weight.dtype == torch.float32


def test_values_are_kept_also_of_tensors_that_cannot_be_written() -> None:
    written, expanded = torch.zeros(2), torch.ones(1).expand(3)
    with keep_values([written, expanded]):
        written.add_(1)
    assert written.tolist() == [0.0, 0.0]
    assert expanded.tolist() == [1.0, 1.0, 1.0]
