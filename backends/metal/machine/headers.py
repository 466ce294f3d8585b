"""Functions and types of AOTI's own headers, which every wrapper includes.

Source: torch's ``csrc/inductor/aoti_runtime/utils.h`` and ``aoti_torch/utils.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from backends.metal.cpp.syntax import WrapperError
from backends.metal.machine import values
from backends.metal.machine.memory import CPU, Tensor
from backends.metal.machine.values import Owner


class LayoutMismatch(WrapperError):
    """A tensor's layout differs from the layout that the code was generated for."""


def _assert_size_stride(
    owner: Any, sizes: tuple[int, ...], strides: tuple[int, ...], name: str = ""
) -> None:
    found = values.tensor(owner)
    same = found.sizes == sizes and all(
        given == expected or size == 1
        for given, expected, size in zip(found.strides, strides, sizes, strict=True)
    )
    if not same:
        raise LayoutMismatch(
            f"{name or 'a tensor'} is {found}; the code was generated for {list(sizes)} with "
            f"strides {list(strides)}"
        )


def _owner(handle: Any = None) -> Owner:
    owner: Owner = values.owned(handle)
    return owner


def _steal(handles: Sequence[Any], count: int) -> list[Owner]:
    return [Owner(handle) for handle in handles[:count]]


def _scalar(value: Any) -> Owner:
    return Owner(Tensor.share(torch.tensor(value), CPU))


HEADERS: Mapping[str, Callable[..., Any]] = {
    "AOTI_TORCH_ERROR_CODE_CHECK": lambda code: code,
    "AOTI_TORCH_WARN": lambda *text: None,
    "std::move": lambda value: values.move(value),
    "std::runtime_error": lambda text: text,
    "temporary_reference": lambda value: value,
    "RAIIAtenTensorHandle": _owner,
    "ConstantHandle": _owner,
    "wrap_with_raii_handle_if_needed": _owner,
    "scalar_to_tensor_handle": _scalar,
    "steal_from_raw_handles_to_raii_handles": _steal,
    "assert_size_stride": _assert_size_stride,
}
"""Functions and types that AOTI's own headers define."""
