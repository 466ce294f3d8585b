"""Execute raw Metal kernels (``MetalKernelNode``) on the CPU with :mod:`backends.metal.host`.

The delegate passes name, header and body to ``mlx::core::fast::metal_kernel``, which generates the
function around the body for the arrays of a call. This module does the same. Sources:
``exec_metal_kernel`` in ``MLXInterpreter.h``; ``mlx/backend/common/metal_kernel.cpp`` and
``mlx/backend/metal/custom_kernel.cpp`` of MLX 0.32.1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy

from backends.mlx.execution.kernels.base import (
    Builder,
    Step,
    check_allocation,
    make_ints_reader,
    to_mlx_dtype,
)
from backends.mlx.payload.graph import Node
from harness import ProgramError, UnsupportedProgram

if TYPE_CHECKING:
    from backends.metal.host import Library

Array = numpy.ndarray[Any, Any]

# From get_type_string in mlx/backend/common/compiled.cpp, with Metal's names instead of MLX's.
_TYPES: dict[mx.Dtype, str] = {
    mx.float32: "float",
    mx.float16: "half",
    mx.bfloat16: "bfloat",
    mx.bool_: "bool",
    mx.int8: "int8_t",
    mx.int16: "int16_t",
    mx.int32: "int32_t",
    mx.int64: "int64_t",
    mx.uint8: "uint8_t",
    mx.uint16: "uint16_t",
    mx.uint32: "uint32_t",
    mx.uint64: "uint64_t",
}

# Values of a thread that become parameters when the body uses their names.
_POSITIONS: dict[str, str] = {
    "dispatch_threads_per_threadgroup": "uint3",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}

_MISSING = {
    r"\b\w*quad\w*group\w*|\bquad_\w+": "quadgroups are",
    r"\bsimdgroup_(?:\w+8x8|matrix|load|store|multiply\w*)\b": "matrices of a SIMD group are",
    r"\b(?:half|float|bfloat)[234]x[234]\b": "matrix types are",
    r"\btexture\w*<|\bsampler\b": "textures are",
    r"\b(?:dispatch_simdgroups_per_threadgroup|grid_origin|grid_size|thread_execution_width)\b": (
        "this position is"
    ),
}

# The part of MLX's headers that a program's kernels may use.
_PRELUDE = """\
#include <metal_stdlib>
using namespace metal;
typedef half float16_t;
typedef bfloat bfloat16_t;
template <typename At = int64_t>
inline At elem_to_loc(At element, constant const int* shape, constant const int64_t* strides,
                      int dimensions) {
  At place = 0;
  for (int axis = dimensions; axis-- > 0; element /= shape[axis])
    place += At(element % shape[axis]) * At(strides[axis]);
  return place;
}
template <typename A, typename B>
inline A ceildiv(A a, B b) {
  return (a + b - 1) / b;
}
"""

_MAX_THREADS = 1024


@dataclass(frozen=True)
class _KernelInput:
    """An input of one call.

    Attributes:
        array: the evaluated array.
        values: the same memory; bfloat16 as uint16.
        strides: strides in elements.
    """

    array: mx.array
    values: Array
    strides: tuple[int, ...]


def kernel(node: Node) -> Step:
    """Compile a raw kernel to a step.

    Raises:
        UnsupportedProgram: there is no compiler, or the host lacks a feature that the source uses.
    """
    from backends.metal.host import CompileError, SourceError

    _require_supported(node)
    grid, threadgroup, flat = (
        make_ints_reader(items) for items in (node.grid, node.threadgroup, node.output_shapes_flat)
    )
    dtypes = [to_mlx_dtype(number) for number in node.output_dtypes]
    name = f"custom_kernel_{re.sub(r'[^0-9A-Za-z_]', '_', node.name)}"

    def step(t: list[Any], v: list[Any]) -> None:
        inputs = [_make_input(node, t[slot]) for slot in node.inputs]
        sizes = flat(v)
        outputs = []
        for count, dtype in zip(node.output_shape_lengths, dtypes, strict=True):
            check_allocation(sizes[:count], dtype)
            outputs.append(_make_output(sizes[:count], dtype, node.init_value))
            sizes = sizes[count:]
        source, arguments = (
            _write_source(node, name, inputs, dtypes),
            _make_arguments(node, inputs, outputs),
        )
        try:
            _launch(_compile(source), name, arguments, grid(v), threadgroup(v))
        except (CompileError, SourceError) as error:
            # The device's compiler may support features that the host's headers lack.
            raise _unsupported(node, f"{error}") from error
        for slot, output, dtype in zip(node.outputs, outputs, dtypes, strict=True):
            result = mx.array(output)
            t[slot] = mx.view(result, dtype) if dtype == mx.bfloat16 else result

    return step


def _require_supported(node: Node) -> None:
    from backends.metal.host import CompileError
    from backends.metal.host.toolchain import compiler

    text = f"{node.header or ''}\n{node.source}"
    for pattern, feature in _MISSING.items():
        match = re.search(pattern, text)
        if match is not None:
            raise _unsupported(node, f"{match[0]}: {feature} not emulated")
    try:
        compiler()
    except CompileError as error:
        raise _unsupported(node, f"{error}") from error


def _unsupported(node: Node, reason: str) -> UnsupportedProgram:
    return UnsupportedProgram(
        f"MetalKernelNode {node.name} cannot be executed on this host: {reason}"
    )


def _make_input(node: Node, array: mx.array) -> _KernelInput:
    array = mx.contiguous(array) if node.ensure_row_contiguous else array
    mx.eval(array)
    bits = mx.view(array, mx.uint16) if array.dtype == mx.bfloat16 else array
    values: Array = numpy.array(bits, copy=None if bits.ndim else True)
    strides = tuple(step // values.itemsize for step in values.strides)
    if min(strides, default=0) < 0:
        raise _unsupported(node, "an input has a negative stride")
    return _KernelInput(array, values, strides)


def _make_output(shape: Sequence[int], dtype: mx.Dtype, init: float | None) -> Array:
    kind = numpy.uint16 if dtype == mx.bfloat16 else numpy.array(mx.zeros([0], dtype)).dtype
    if init is not None:
        first = mx.array(init).astype(dtype)
        bits = mx.view(first, mx.uint16) if dtype == mx.bfloat16 else first
        return numpy.full(shape, numpy.array(bits), kind)
    output: Array = numpy.empty(shape, kind)
    # The device does not clear the memory either; NaN and -1 show elements that nothing writes.
    output.reshape(-1).view(numpy.uint8)[:] = 1 if dtype == mx.bool_ else 0xFF
    return output


def _find_used_properties(node: Node, name: str) -> list[str]:
    """Return the additional parameters that the body uses by name."""
    return [kind for kind in ("shape", "strides", "ndim") if f"{name}_{kind}" in node.source]


def _write_source(
    node: Node, name: str, inputs: Sequence[_KernelInput], dtypes: Sequence[mx.Dtype]
) -> str:
    """Generate the kernel as MLX does, except that template arguments become constants."""
    parameters = []
    for one, label in zip(inputs, node.input_names, strict=True):
        mark = "*" if one.array.ndim else "&"
        parameters.append(f"const device {_TYPES[one.array.dtype]}{mark} {label}")
        extra = {
            "shape": f"const constant int* {label}_shape",
            "strides": f"const constant int64_t* {label}_strides",
            "ndim": f"const constant int& {label}_ndim",
        }
        if one.array.ndim:
            parameters += [extra[kind] for kind in _find_used_properties(node, label)]
    for label, dtype in zip(node.output_names, dtypes, strict=True):
        element = f"atomic<{_TYPES[dtype]}>" if node.atomic_outputs else _TYPES[dtype]
        parameters.append(f"device {element}* {label}")
    signature = [f"{text} [[buffer({slot})]]" for slot, text in enumerate(parameters)]
    signature += [
        f"{kind} {label} [[{label}]]" for label, kind in _POSITIONS.items() if label in node.source
    ]
    return "".join(
        [
            _PRELUDE,
            node.header or "",
            f"\n[[kernel]] void {name}(\n  ",
            ",\n  ".join(signature),
            ") {\n",
            *_define_template_arguments(node),
            "{\n",
            node.source,
            "\n}\n}\n",
        ]
    )


def _define_template_arguments(node: Node) -> list[str]:
    """Define the template's parameters as constants and types."""
    lines = []
    rows = zip(
        node.template_arg_names or (),
        node.template_arg_kinds or (),
        node.template_arg_values or (),
        strict=True,
    )
    for label, kind, value in rows:
        if kind == 0:
            lines.append(f"constexpr int {label} = {value};\n")
        elif kind == 1:
            lines.append(f"constexpr bool {label} = {'true' if value else 'false'};\n")
        else:
            lines.append(f"using {label} = {_TYPES[to_mlx_dtype(value)]};\n")
    return lines


@functools.lru_cache(maxsize=256)
def _compile(source: str) -> Library:
    from backends.metal.host import Library

    return Library(source)


def _make_arguments(
    node: Node, inputs: Sequence[_KernelInput], outputs: Sequence[Array]
) -> list[Any]:
    from backends.metal.host import Buffer

    arguments: list[Any] = []
    for one, label in zip(inputs, node.input_names, strict=True):
        values = one.values
        if not one.array.ndim:
            arguments.append(values.tobytes())
            continue
        reach = sum((size - 1) * step for size, step in zip(values.shape, one.strides, strict=True))
        nbytes = (reach + 1) * values.itemsize if values.size else 0
        arguments.append(Buffer(values.ctypes.data, nbytes, (one.array, values)))
        extra = {
            "shape": numpy.array(values.shape, numpy.int32),
            "strides": numpy.array(one.strides, numpy.int64),
            "ndim": values.ndim,
        }
        arguments += [extra[kind] for kind in _find_used_properties(node, label)]
    return [*arguments, *outputs]


def _launch(
    library: Library, name: str, arguments: list[Any], grid: list[int], threadgroup: list[int]
) -> None:
    threads = threadgroup[0] * threadgroup[1] * threadgroup[2]
    found = library.kernel(name)
    if threads > min(found.max_threads, _MAX_THREADS):
        raise ProgramError(f"a threadgroup of {threads} threads is more than the device takes")
    x, y, z = (min(size, limit) for size, limit in zip(threadgroup, grid, strict=True))
    found.dispatch(arguments, (grid[0], grid[1], grid[2]), (x, y, z))


BUILDERS: dict[str, Builder] = {"MetalKernelNode": kernel}
