"""Fallback nodes are executed by the runtime's own kernels, or a missing kernel is reported."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import schema

from harness import Case, Tester, run_cell
from harness.errors import MissingKernels, ProgramError
from harness.execution.execute import Interpreter, run_native
from harness.execution.kernels import AtenKernels, RuntimeKernels
from harness.execution.native import kernel_call
from harness.execution.operators import list_native_kernels
from harness.execution.program import Program
from harness.model import registry
from harness.model.backend import CanEmulate
from harness.pipeline.route import lower
from harness.record.cell import Status

Forward = Callable[..., Any]
ROWS = {0: torch.export.Dim("rows", min=2, max=8)}


class Module(torch.nn.Module):
    """A function as a module, with a buffer."""

    state: torch.Tensor

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self._forward = forward
        self.register_buffer("state", torch.zeros(4))

    def forward(self, *inputs: Any) -> Any:
        return self._forward(self, *inputs)


def program_of(
    forward: Forward, *inputs: Any, target: str = "null:eager", dynamic_shapes: Any = None
) -> bytes:
    case = Case("test/kernel", lambda: (Module(forward), inputs), dynamic_shapes=dynamic_shapes)
    tester = Tester(case, target)
    lower(tester)
    return tester.program


def accumulate(module: Module, x: torch.Tensor) -> torch.Tensor:
    module.state.add_(x)
    return module.state * 2


def lists(_: Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    low, high = torch.split(x, 2)
    values, indices = torch.topk(x, 3)
    return torch.cat([high, low]), values, indices, x[None, torch.tensor([3, 0])]


def convolve(_: Module, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, torch.ones(3, 3, 2, 2))


def grow(_: Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    positions = torch.arange(x.shape[0])
    return torch.cat([x, x]).exp(), positions + 1, x.shape[0] * 3


X = torch.tensor([0.5, -2.0, 7.25, 1e-3])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 4 * 4).reshape(2, 3, 4, 4)
PROGRAMS: dict[str, tuple[Forward, list[tuple[Any, ...]], Any]] = {
    "numbers": (lambda _, x: torch.add(x, 3.5, alpha=2).clamp(-1, None), [(X,)], None),
    "no tensor goes in": (lambda _, x: torch.full((3,), 7.0) + x[:3], [(X,)], None),
    "a buffer": (accumulate, [(X,), (X,), (X,)], None),
    "lists": (lists, [(X,)], None),
    "text": (lambda _, x: torch.div(x, 0.3, rounding_mode="floor"), [(X,)], None),
    "scalars in tensors": (lambda _, x: x.sum() * x.mean(), [(X,)], None),
    "channels last": (convolve, [(IMAGE.to(memory_format=torch.channels_last),)], None),
    "nothing": (lambda _, x: torch.cat([x[:0], x]), [(X,)], None),
    "sizes": (grow, [(torch.ones(n, 2),) for n in (4, 8, 2, 4)], ((ROWS,),)),
}


def same(ours: Any, theirs: Any) -> bool:
    if not isinstance(theirs, torch.Tensor):
        return type(ours) is type(theirs) and bool(ours == theirs)
    return (
        ours.dtype == theirs.dtype
        and ours.stride() == theirs.stride()
        and torch.equal(ours, theirs)
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interpreted_program_and_the_runtime_compute_the_same(name: str) -> None:
    forward, calls, dynamic_shapes = PROGRAMS[name]
    program = program_of(forward, *calls[0], dynamic_shapes=dynamic_shapes)
    interpreter = Interpreter(program, {}, RuntimeKernels())
    ours = [interpreter(inputs) for inputs in calls]
    theirs = run_native(program, calls)
    for call, expected in zip(ours, theirs, strict=True):
        assert len(call) == len(expected)
        assert all(map(same, call, expected)), (call, expected)


def test_numbers_are_the_runtimes_and_not_atens() -> None:
    """The portable erf is libm's; ATen's is vectorized and rounds some results differently."""
    x = torch.linspace(-4, 4, 4096)
    program = program_of(lambda _, x: torch.erf(x), x)
    ((native,),) = run_native(program, [(x,)])
    (runtime,) = Interpreter(program, {}, RuntimeKernels())((x,))
    (aten,) = Interpreter(program, {}, AtenKernels())((x,))
    assert torch.equal(runtime, native)
    assert not torch.equal(aten, native)


def sort_of_sum(_: Module, x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x * 2)[0] + 1


@pytest.mark.parametrize("target", ["portable:fp32", "tosa:fp"])
def test_a_left_over_operator_without_a_kernel_is_unsupported(target: str) -> None:
    case = Case("test/sort", lambda: (Module(sort_of_sum), (X,)))
    cell = run_cell(case, target)
    assert cell.delegation.undelegated_ops["aten.sort.default"] == 1
    assert (cell.status, cell.stage) == (Status.UNSUPPORTED, "run")
    assert cell.error == "the ExecuTorch runtime has no kernel for aten::sort.values"


def test_the_runtime_names_missing_kernels() -> None:
    program = program_of(lambda _, x: torch.sort(torch.sort(x, 0)[1])[0], X)
    for execute in (run_native, lambda *given: Interpreter(given[0], {}, RuntimeKernels())):
        with pytest.raises(MissingKernels) as caught:
            execute(program, [(X,)])
        assert caught.value.names == ("aten::sort.values",)


@pytest.mark.parametrize("name", ["mlx", "metal"])
def test_emulations_have_the_kernels_of_the_runtime(name: str) -> None:
    """These targets delegate a sort or fail to lower it, so the program is not lowered for a
    backend."""
    backend = registry.backend(name)
    if not backend.availability().available:
        pytest.skip(backend.availability().reason)
    assert isinstance(backend, CanEmulate)
    with pytest.raises(ProgramError, match=r"no kernel aten::sort\.values"):
        backend.emulate(program_of(sort_of_sum, X), [(X,)])


def test_eager_may_have_more_kernels_than_the_runtime() -> None:
    program = program_of(sort_of_sum, X)
    assert "aten::sort.values" not in list_native_kernels()
    with pytest.raises(ProgramError, match=r"the runtime has no kernel aten::sort\.values"):
        Interpreter(program, {}, RuntimeKernels())
    (output,) = Interpreter(program, {}, AtenKernels())((X,))
    assert torch.equal(output, torch.sort(X * 2)[0] + 1)


def test_a_kernel_that_fails_is_named() -> None:
    """The portable convolution has no third spatial dimension."""
    x = torch.ones(1, 1, 3, 3, 3)
    program = program_of(lambda _, x: torch.nn.functional.conv3d(x, torch.ones(1, 1, 2, 2, 2)), x)
    with pytest.raises(RuntimeError, match="0x12"):
        run_native(program, [(x,)])
    with pytest.raises(ProgramError, match=r"kernel aten::convolution\.out: .*0x12"):
        Interpreter(program, {}, RuntimeKernels())((x,))


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (0, schema.Int(3), "takes Tensor for 'self', the program passes Int"),
        (2, schema.Null(), "takes number for 'alpha', the program passes Null"),
        (3, schema.Double(1.0), "takes Tensor for 'out', the program passes Double"),
    ],
)
def test_an_argument_of_another_type_is_refused(place: int, value: Any, problem: str) -> None:
    program = Program(program_of(lambda _, x, y: x + y, X, X))
    call = program.plan.chains[0].instructions[0].instr_args
    assert isinstance(call, schema.KernelCall)
    program.plan.values[call.args[place]].val = value
    with pytest.raises(ProgramError, match=problem):
        RuntimeKernels().load(program, call)


def test_a_call_of_another_length_is_refused() -> None:
    program = Program(program_of(lambda _, x, y: x + y, X, X))
    call = program.plan.chains[0].instructions[0].instr_args
    assert isinstance(call, schema.KernelCall)
    for args in (call.args[:-1], [*call.args, 0]):
        with pytest.raises(ProgramError, match="takes 4 arguments and a place for its result"):
            RuntimeKernels().load(program, schema.KernelCall(call.op_index, args))


def test_a_move_of_a_non_tensor_over_a_tensor_is_refused() -> None:
    program = Program(program_of(lambda _, x, y: x + y, X, X))
    call = program.plan.chains[0].instructions[0].instr_args
    assert isinstance(call, schema.KernelCall)
    handle = RuntimeKernels().load(program, call)
    with pytest.raises(ProgramError, match=r"declared Tensor, holds a int when kernel aten::add"):
        handle([X, 3, 1, torch.empty(4), torch.empty(4)])


def test_the_number_of_cached_programs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.execution.native.kernel_call._MAX_PROGRAMS", 2)
    calls = [(torch.ones(n, 2),) for n in (4, 8, 2, 3, 4)]
    program = program_of(grow, *calls[0], dynamic_shapes=((ROWS,),))
    interpreter = Interpreter(program, {}, RuntimeKernels())
    ours = [interpreter(inputs) for inputs in calls]
    for call, expected in zip(ours, run_native(program, calls), strict=True):
        assert all(map(same, call, expected))


def test_equal_calls_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[schema.ExecutionPlan] = []

    class Counted(kernel_call.LoadedPlan):
        def __init__(self, plan: schema.ExecutionPlan, what: str) -> None:
            loaded.append(plan)
            super().__init__(plan, what)

    monkeypatch.setattr(kernel_call, "LoadedPlan", Counted)
    monkeypatch.setattr(kernel_call, "_SHARED", OrderedDict())
    x = torch.linspace(-1, 1, 11)
    program = program_of(lambda _, x: torch.erf(torch.erf(torch.erf(x))) * x, x)
    for _ in range(3):
        outputs = Interpreter(program, {}, RuntimeKernels())((x,))
    assert [plan.operators[0].name for plan in loaded] == ["aten::erf", "aten::mul"]
    assert all(map(same, outputs, run_native(program, [(x,)])[0]))
