"""Generated kernels and their launches: ``shims/shim_mps.mm``, ``shims/et_metal.mm``."""

from __future__ import annotations

import math

from backends.metal.contract.call import Call, TensorMeta
from backends.metal.contract.layout import packed, reads_alike
from backends.metal.contract.require import given
from backends.metal.contract.rule import METAL, PACKED_COPIES, Function, Kind, Rule

_SOURCE = f"{METAL}/shims/shim_mps.mm"
_KERNEL = f"{METAL}/shims/et_metal.mm"
_MOST = 1024
"""Threads of a threadgroup on every Apple GPU; a kernel that needs many registers has fewer."""


def _view(tensor: TensorMeta) -> str | None:
    if packed(tensor.sizes, tensor.strides) or reads_alike(tensor):
        return None
    return f"strides {tensor.strides}"


def _positive(call: Call) -> str | None:
    lengths = call.integers("length")
    return None if lengths and min(lengths) > 0 else str(lengths)


def _three(call: Call) -> str | None:
    found = len(call.integers("length"))
    return None if found <= 3 else f"of {found} dimensions"


def _group(call: Call) -> str | None:
    lengths, groups = call.integers("length"), call.integers("group_size")
    if len(lengths) < 2 or len(groups) < len(lengths):
        return None  # clamped, or chosen by the runtime
    used = [min(size, length) for size, length in zip(groups, lengths, strict=False)]
    return None if math.prod(used) <= _MOST else f"{groups} over {lengths}"


_GRID = (
    Rule("length", "positive", "is not positive", _positive, source=_KERNEL),
    Rule(
        "length",
        "up to 3 dimensions",
        "of which the runtime launches three",
        _three,
        Kind.DEFECT,
        source=_KERNEL,
    ),
)
_DISPATCH = "aoti_torch_mps_dispatch"

FUNCTIONS = (
    Function(
        "aoti_torch_mps_set_arg_tensor",
        ("func", "idx", "tensor"),
        _SOURCE,
        (
            Rule(
                "tensor",
                "a dense tensor, or one repeated in leading dimensions only",
                "are what the kernel indexes with, in a dense copy: it reads and writes beside it",
                given("tensor", _view),
                Kind.DEFECT,
                PACKED_COPIES,
                f"{METAL}/shims/memory.cpp",
                "aoti_torch__reinterpret_tensor",
            ),
        ),
        note="a tensor on the host is copied in, and not back",
    ),
    Function("aoti_torch_mps_set_arg_int", ("func", "idx", "value"), _SOURCE),
    Function(f"{_DISPATCH}_single", ("func", "length"), _SOURCE),
    Function(f"{_DISPATCH}_single_with_group_size", ("func", "length", "group_size"), _SOURCE),
    Function(f"{_DISPATCH}_array", ("func", "length", "length_size"), _SOURCE, _GRID),
    Function(
        f"{_DISPATCH}_array_with_group_size",
        ("func", "length", "length_size", "group_size", "group_size_size"),
        _SOURCE,
        (
            *_GRID,
            Rule(
                "group_size",
                f"up to {_MOST} threads",
                f"are more than {_MOST} threads",
                _group,
                source=_KERNEL,
            ),
        ),
        note="groups are cut to the length, in one dimension to what the kernel can have",
    ),
    *(
        Function(f"aoti_torch_mps_{name}", parameters, _SOURCE)
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
