"""Raw Metal kernels: MLX's wrapper code around a body, and execution on the host."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy
import pytest
import torch

from backends.mlx import codegen
from backends.mlx.execution.executor import MlxExecutor
from backends.mlx.execution.tests.assembled import Assembled, V
from backends.mlx.payload import reader
from backends.mlx.payload.tests.payloads import encode, graph, integer, mlx, slot
from harness import Case, ProgramError, UnsupportedProgram, run_cell

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

OPERATORS = "executorch.backends.mlx.custom_kernel_ops"
_F32, _BF16, _I32, _U8 = 6, 15, 3, 0
_X = numpy.random.default_rng(0).standard_normal((3, 40)).astype(numpy.float32)
_COUNTS = numpy.array([[0, 2, 1], [2, 2, 5]], numpy.int32)


def _sizes(*numbers: Any) -> list[Any]:
    return [integer(number) for number in numbers]


def node(source: str, inputs: dict[str, Any], out: Any, shape: Any, **fields: Any) -> Any:
    """A kernel of one output ``out``, by default a thread for each element of ``shape``."""
    threads = fields.pop("threads", None) or [int(numpy.prod(shape)), 1, 1]
    defaults = {
        "name": "test",
        "output_names": ["out"],
        "output_shapes_flat": _sizes(*shape),
        "output_shape_lengths": [len(shape)],
        "output_dtypes": [_F32],
        "grid": _sizes(*threads),
        "threadgroup": _sizes(*fields.pop("group", (32, 1, 1))),
    }
    return mlx.MetalKernelNode(
        source=source,
        inputs=list(inputs.values()),
        input_names=list(inputs),
        outputs=[out],
        **{**defaults, **fields},
    )


_INDEX = "uint i = thread_position_in_grid.x;"

# fmt: off
PROGRAMS: dict[str, Assembled] = {
    "elementwise": Assembled(
        lambda a, b, out, *_: [node(
            _INDEX + "if (i < uint(a_shape[0] * a_shape[1])) out[i] = a[i] + 2 * b[i];",
            {"a": a, "b": b}, out, (3, 40), threads=[128, 1, 1])],
        (_X, _X[::-1].copy()), _X + 2 * _X[::-1]),
    "template": Assembled(
        lambda a, out, *_: [node(
            _INDEX + "T x = T(a[i]); out[i] = NEGATE ? -x / D : x;",
            {"a": a}, out, (3, 40), template_arg_names=["T", "D", "NEGATE"],
            template_arg_kinds=[2, 0, 1], template_arg_values=[_F32, 4, 1])],
        (_X,), -_X / 4),
    "strides": Assembled(
        lambda a, out, turned, *_: [
            mlx.TransposeNode(x=a, out=turned, perm=[1, 0]),
            node(_INDEX + "out[i] = a[elem_to_loc(i, a_shape, a_strides, a_ndim)];",
                 {"a": turned}, out, (40, 3), ensure_row_contiguous=False)],
        (_X,), _X.T.copy()),
    "memory_as_it_lies": Assembled(
        lambda a, out, turned, *_: [
            mlx.TransposeNode(x=a, out=turned, perm=[1, 0]),
            node(_INDEX + "out[i] = a[i];", {"a": turned}, out, (40, 3),
                 ensure_row_contiguous=False)],
        (_X,), _X.reshape(40, 3)),
    "row_contiguous": Assembled(
        lambda a, out, turned, *_: [
            mlx.TransposeNode(x=a, out=turned, perm=[1, 0]),
            node(_INDEX + "out[i] = a[i];", {"a": turned}, out, (40, 3))],
        (_X,), _X.T.copy()),
    "scalar": Assembled(
        lambda a, b, out, *_: [node(
            _INDEX + "out[i] = a[i] * b;", {"a": a, "b": b}, out, (3, 40))],
        (_X, numpy.float32(1.5)), _X * numpy.float32(1.5)),
    "atomic": Assembled(
        lambda a, out, *_: [node(
            _INDEX + "atomic_fetch_add_explicit(&out[a[i]], 1, memory_order_relaxed);",
            {"a": a}, out, (7,), threads=[6, 1, 1], atomic_outputs=True, init_value=10.0,
            output_dtypes=[_I32])],
        (_COUNTS,), 10 + numpy.bincount(_COUNTS.ravel(), minlength=7).astype(numpy.int32)),
    "threadgroup_memory": Assembled(
        lambda a, out, *_: [node(
            "threadgroup float row[64];"
            "uint t = thread_position_in_threadgroup.x, g = threadgroup_position_in_grid.y;"
            "uint n = threads_per_threadgroup.x;"
            "row[t] = a[g * n + t]; threadgroup_barrier(mem_flags::mem_threadgroup);"
            "out[g * n + t] = row[n - 1 - t];",
            {"a": a}, out, (3, 40), threads=[40, 3, 1], group=(64, 1, 1))],
        (_X,), _X[:, ::-1].copy()),
    "simd_sum": Assembled(
        lambda a, out, *_: [node(
            "float s = simd_sum(a[thread_position_in_grid.x]);"
            "if (thread_index_in_simdgroup == 0) out[thread_position_in_grid.x / 32] = s;",
            {"a": a}, out, (3,), threads=[96, 1, 1])],
        (_X.ravel()[:96].copy(),), _X.ravel()[:96].reshape(3, 32).sum(1), 1e-5),
    "header": Assembled(
        lambda a, out, *_: [node(
            _INDEX + "out[i] = twice(a[i]);", {"a": a}, out, (3, 40),
            header="template <typename T> inline T twice(T x) { return x + x; }\n")],
        (_X,), _X + _X),
    "size_at_run_time": Assembled(
        lambda a, out, *_: [node(
            _INDEX + "out[i] = a[i];", {"a": a}, out, (V(0),), threads=[V(0), 1, 1])],
        (_X, 5), _X.ravel()[:5].copy()),
    "bytes_and_bools": Assembled(
        lambda a, out, *_: [node(
            _INDEX + "out[i] = uchar(a[i] > 0) << 4;", {"a": a}, out, (3, 40),
            output_dtypes=[_U8])],
        (_X,), ((_X > 0) << 4).astype(numpy.uint8)),
}
# fmt: on


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_the_expected_one(name: str) -> None:
    program = PROGRAMS[name]
    result, expected = program.run(), numpy.asarray(program.expected)
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    numpy.testing.assert_allclose(result, expected, rtol=program.tolerance, atol=program.tolerance)


def run(given: Any, *arrays: mx.array) -> list[Any]:
    """Execute a kernel of tensor slots 0, 1, ...; the last is its output."""
    count = len(arrays)
    encoded = encode(
        graph(
            given,
            num_input_tensors=count,
            num_output_tensors=1,
            input_map=[*map(slot, range(count))],
            output_map=[slot(count)],
        )
    )
    return MlxExecutor(reader.load(encoded), [])(list(arrays))


def copying(source: str = "out[i] = a[i];", **fields: Any) -> Any:
    return node(_INDEX + source, {"a": mlx.Tid(0)}, mlx.Tid(1), (4,), **fields)


def test_bfloat16_is_passed_unchanged() -> None:
    given = mx.array([1.0, -2.5, 3.14159, 0.0]).astype(mx.bfloat16)
    source = "out[i] = bfloat16_t(float(a[i]) * 3);"
    (result,) = run(copying(source, output_dtypes=[_BF16]), given)
    assert result.dtype == mx.bfloat16
    assert mx.array_equal(result, given * 3)


def test_output_that_no_thread_writes_is_detected() -> None:
    (result,) = run(copying("if (i < 2) out[i] = a[i];"), mx.ones(4))
    assert numpy.isnan(numpy.array(result)[2:]).all()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("out[i + 1] = a[i];", r"MetalKernelNode\): kernel custom_kernel_test.* out\[4\]"),
        ("out[i] = a[i + 1];", r"reads a\[4\]"),
        ("out[0] = a[i];", "custom_kernel_test"),
        ("out[i] = nothing;", "nothing"),
    ],
)
def test_a_wrong_kernel_is_an_error_of_its_instruction(source: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        run(copying(source), mx.arange(4).astype(mx.float32))


def test_a_threadgroup_too_large_is_refused() -> None:
    with pytest.raises(ProgramError, match="2048 threads is more than the device takes"):
        run(copying(group=(32, 64, 1)), mx.ones(4))


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("out[i] = quad_sum(a[i]);", "quadgroups"),
        ("simdgroup_float8x8 m; out[i] = a[i];", "matrices of a SIMD group"),
        ("half2x4 m; out[i] = a[i];", "matrix types"),
        ("out[i] = a[i] + grid_origin.x;", "this position"),
    ],
)
def test_functions_that_the_host_lacks_are_unsupported_by_name(source: str, what: str) -> None:
    with pytest.raises(UnsupportedProgram, match=f"MetalKernelNode test .*{what}"):
        run(copying(source), mx.ones(4))


def test_without_a_compiler_it_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.metal.host import CompileError, toolchain

    def missing() -> str:
        raise CompileError("no compiler")

    monkeypatch.setattr(toolchain, "compiler", missing)
    with pytest.raises(UnsupportedProgram, match=r"MetalKernelNode test .*no compiler"):
        run(copying(), mx.ones(4))


class Custom(torch.nn.Module):
    """An operator of the delegate that is a raw kernel."""

    def __init__(self, name: str) -> None:
        super().__init__()
        codegen.install()
        importlib.import_module(f"{OPERATORS}.{name}")
        self.operator = getattr(torch.ops.mlx, name)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.operator(*inputs)
        return result


def _codes(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


CUSTOM: dict[str, Callable[[], tuple[torch.Tensor, ...]]] = {
    "tq_norm": lambda: (torch.randn(5, 2, 64),),
    "tq_dequant": lambda: (_codes(3, 32), torch.rand(3, 1), torch.randn(16)),
    "tq4_compress": lambda: (torch.randn(3, 64), torch.linspace(-2, 2, 15)),
}


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", CUSTOM)
def test_operators_of_the_delegate_conform(name: str, dtype: str) -> None:
    cell = run_cell(Case(f"{name}/kernel", lambda: (Custom(name), CUSTOM[name]())), f"mlx:{dtype}")
    assert cell.status.value == "passed", cell.error
    assert cell.delegation is not None
    assert cell.delegation.delegates == 1


class Recurrence(torch.nn.Module):
    """The gated delta rule with state that is kept between calls."""

    def __init__(self) -> None:
        super().__init__()
        codegen.install()
        importlib.import_module(f"{OPERATORS}.gated_delta_rule")
        self.register_buffer("state", torch.zeros(1, 2, 4, 32))

    def forward(self, q: Any, k: Any, v: Any, g: Any, beta: Any) -> torch.Tensor:
        result: torch.Tensor = torch.ops.mlx.gated_delta_rule(q, k, v, g, beta, self.state)
        return result


def test_the_gated_delta_rule_conforms_over_calls() -> None:
    def inputs() -> tuple[torch.Tensor, ...]:
        heads = [torch.randn(1, 3, 2, size) for size in (32, 32, 4)]
        return *heads, torch.rand(1, 3, 2), torch.rand(1, 3, 2)

    case = Case("recurrence/kernel", lambda: (Recurrence(), inputs()), calls=lambda: [inputs()])
    cell = run_cell(case, "mlx:fp32")
    assert cell.status.value == "passed", cell.error
    assert cell.delegation is not None
    assert cell.delegation.delegates == 1
