"""Rules for launches of generated kernels: ``shims/shim_mps.mm``, ``shims/et_metal.mm``."""

from __future__ import annotations

import math

from backends.metal.contract.call import CallTensor, RuntimeCall
from backends.metal.contract.layout import can_index_copy, is_packed
from backends.metal.contract.require import check_tensor
from backends.metal.contract.rule import (
    METAL,
    PACKED_COPIES,
    ContractRule,
    RuntimeFunction,
    ViolationKind,
)

_SOURCE = f"{METAL}/shims/shim_mps.mm"
_KERNEL = f"{METAL}/shims/et_metal.mm"
_MOST = 1024
"""Most threads of a threadgroup on every Apple GPU; fewer for a kernel with many registers."""


def _view(tensor: CallTensor) -> str | None:
    if is_packed(tensor.sizes, tensor.strides) or can_index_copy(tensor):
        return None
    return f"strides {tensor.strides}"


def _positive(call: RuntimeCall) -> str | None:
    lengths = call.integers("length")
    return None if lengths and min(lengths) > 0 else str(lengths)


def _three(call: RuntimeCall) -> str | None:
    found = len(call.integers("length"))
    return None if found <= 3 else f"of {found} dimensions"


def _group(call: RuntimeCall) -> str | None:
    lengths, groups = call.integers("length"), call.integers("group_size")
    if len(lengths) < 2 or len(groups) < len(lengths):
        return None  # clamped, or chosen by the runtime
    used = [min(size, length) for size, length in zip(groups, lengths, strict=False)]
    return None if math.prod(used) <= _MOST else f"{groups} over {lengths}"


_GRID = (
    ContractRule("length", "positive", "is not positive", _positive, source=_KERNEL),
    ContractRule(
        "length",
        "up to 3 dimensions",
        "exceed the three that the runtime launches",
        _three,
        ViolationKind.DEFECT,
        source=_KERNEL,
    ),
)
_DISPATCH = "aoti_torch_mps_dispatch"

FUNCTIONS = (
    RuntimeFunction(
        "aoti_torch_mps_set_arg_tensor",
        ("func", "idx", "tensor"),
        _SOURCE,
        (
            ContractRule(
                "tensor",
                "a dense tensor, or one repeated in leading dimensions only",
                "index a dense copy of the view: the kernel reads and writes wrong elements",
                check_tensor("tensor", _view),
                ViolationKind.DEFECT,
                PACKED_COPIES,
                f"{METAL}/shims/memory.cpp",
                "aoti_torch__reinterpret_tensor",
            ),
        ),
        note="a tensor on the host is copied to the device, and not back",
    ),
    RuntimeFunction("aoti_torch_mps_set_arg_int", ("func", "idx", "value"), _SOURCE),
    RuntimeFunction(f"{_DISPATCH}_single", ("func", "length"), _SOURCE),
    RuntimeFunction(
        f"{_DISPATCH}_single_with_group_size", ("func", "length", "group_size"), _SOURCE
    ),
    RuntimeFunction(f"{_DISPATCH}_array", ("func", "length", "length_size"), _SOURCE, _GRID),
    RuntimeFunction(
        f"{_DISPATCH}_array_with_group_size",
        ("func", "length", "length_size", "group_size", "group_size_size"),
        _SOURCE,
        (
            *_GRID,
            ContractRule(
                "group_size",
                f"up to {_MOST} threads",
                f"are more than {_MOST} threads",
                _group,
                source=_KERNEL,
            ),
        ),
        note="group sizes are reduced to the length, in one dimension to the kernel's maximum",
    ),
    *(
        RuntimeFunction(f"aoti_torch_mps_{name}", parameters, _SOURCE)
        for name, parameters in {
            "create_shader_library": ("source",),
            "delete_shader_library": ("library",),
            "get_kernel_function": ("library", "kernel_name"),
            "start_encoding": ("func",),
            "run_command_block": ("func", "callback", "user_data"),
            "shared_callback": ("func", "user_data"),
            "malloc": ("buffer", "num_bytes"),
            "free": ("ptr",),
            "memcpy": ("buffer", "constant_offset", "bytes_read", "data_size", "constants_start"),
            "copy_buffer": ("src_buffer", "dst_buffer", "data_size", "src_offset", "dst_offset"),
        }.items()
    ),
)
