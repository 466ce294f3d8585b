"""The executor as its callers use it: state, shapes, threads, scalars, refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from backends.mlx import BACKEND
from backends.mlx.execution.delegate import load
from backends.mlx.payload.graph import DELEGATE, Node
from harness import Case, Inputs, ProgramError, Tester, run_cell
from harness.backend_api import Interpreter, RuntimeKernels


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Counter(torch.nn.Module):
    """Adds its input to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Weighted(torch.nn.Module):
    """Computes with a batch size that is symbolic."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * (x.shape[0] - 1)).reshape(-1)


class TopTwo(torch.nn.Module):
    """The two largest of each row."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, indices = x.topk(2)
        return values, indices


def lowered(module: torch.nn.Module, inputs: Inputs, **options: object) -> bytes:
    case = Case("test/case", lambda: (module, inputs), **options)
    return Tester(case, "mlx:fp32").export().lower().to_executorch().serialize().program


def batches(low: int, high: int) -> dict[str, object]:
    return {"x": {0: torch.export.Dim("batch", min=low, max=high)}}


def concurrently(count: int, work: Callable[[int], None]) -> None:
    """Run in threads that start together; the first exception is raised here."""
    ready = threading.Barrier(count)
    errors: list[BaseException] = []

    def body(number: int) -> None:
        try:
            ready.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def inputs_of(number: int) -> torch.Tensor:
    return torch.randn(3, 16, generator=torch.Generator().manual_seed(number))


@pytest.fixture(scope="session")
def mlp() -> bytes:
    torch.manual_seed(0)
    return lowered(Mlp(), (inputs_of(0),))


def test_one_program_serves_fifty_threads(mlp: bytes) -> None:
    program = Interpreter(mlp, {DELEGATE: load}, RuntimeKernels())
    expected = [program((inputs_of(number),))[0] for number in range(50)]

    def work(number: int) -> None:
        for _ in range(20):
            (out,) = program((inputs_of(number),))
            assert torch.equal(out, expected[number])

    concurrently(50, work)


def test_one_program_a_thread(mlp: bytes) -> None:
    reference = Interpreter(mlp, {DELEGATE: load}, RuntimeKernels())
    expected = [reference((inputs_of(number),))[0] for number in range(50)]

    def work(number: int) -> None:
        program = Interpreter(mlp, {DELEGATE: load}, RuntimeKernels())
        for _ in range(20):
            assert torch.equal(program((inputs_of(number),))[0], expected[number])

    concurrently(50, work)


def test_buffers_persist_from_call_to_call_and_not_between_objects() -> None:
    program = lowered(Counter(), (torch.ones(4),))
    for _ in range(2):
        calls = [(torch.ones(4),), (torch.full((4,), 2.0),), (torch.ones(4),)]
        outputs = BACKEND.execute(program, calls).outputs
        assert [out[0][0].item() for out in outputs] == [2.0, 6.0, 8.0]


def test_threads_take_turns_with_a_buffer() -> None:
    program = Interpreter(lowered(Counter(), (torch.ones(4),)), {DELEGATE: load}, RuntimeKernels())
    concurrently(20, lambda number: [program((torch.ones(4),)) for _ in range(10)] and None)
    assert program((torch.zeros(4),))[0].tolist() == [400.0] * 4


def test_one_program_takes_many_shapes() -> None:
    program = lowered(Weighted(), (torch.randn(8, 3),), dynamic_shapes=batches(4, 16))
    calls = [(torch.randn(size, 3),) for size in (4, 16, 5, 8)]
    for (given,), (out,) in zip(calls, BACKEND.execute(program, calls).outputs, strict=True):
        torch.testing.assert_close(out, Weighted()(given))


@pytest.mark.parametrize("size", [1, 3])
def test_a_size_below_the_bounds_is_taken_as_the_runtime_takes_it(size: int) -> None:
    """Neither ``tensor_to_mlx`` nor ExecuTorch has a smallest size."""
    program = lowered(Weighted(), (torch.randn(8, 3),), dynamic_shapes=batches(4, 16))
    given = torch.randn(size, 3)
    ((out,),) = BACKEND.execute(program, [(given,)]).outputs
    torch.testing.assert_close(out, Weighted()(given))


def test_a_size_above_the_bounds_is_refused_by_the_program() -> None:
    program = lowered(Weighted(), (torch.randn(8, 3),), dynamic_shapes=batches(4, 16))
    with pytest.raises(ProgramError, match=r"input 0 has shape \(17, 3\); the program takes"):
        BACKEND.execute(program, [(torch.randn(17, 3),)])


@pytest.mark.parametrize("size", [3, 4, 5])
def test_sizes_that_lowering_took_for_fixed_are_not_compared(size: int) -> None:
    """The handler of topk reads the axis' size from the example, and declares it so."""
    lengths = {"x": {1: torch.export.Dim("length", min=3, max=12)}}
    program = lowered(TopTwo(), (torch.randn(2, 5),), dynamic_shapes=lengths)
    given = torch.randn(2, size)
    ((values, indices),) = BACKEND.execute(program, [(given,)]).outputs
    torch.testing.assert_close((values, indices), tuple(given.topk(2)))


def test_another_dtype_is_refused(mlp: bytes) -> None:
    with pytest.raises(ProgramError, match=r"float64"):
        BACKEND.execute(mlp, [(torch.randn(3, 16, dtype=torch.float64),)])


def test_a_raw_metal_kernel_is_unsupported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.mlx.payload import reader

    def with_kernel(data: bytes) -> object:
        graph = original(data)
        fields: dict[str, Any] = {
            "header": None,
            "source": "quad_sum(x);",
            "inputs": [],
            "outputs": [],
        }
        kernel = Node(kind="MetalKernelNode", name="copy", **fields)
        object.__setattr__(graph, "chains", ((kernel, *graph.chains[0]), *graph.chains[1:]))
        return graph

    original = reader.load
    monkeypatch.setattr(reader, "load", with_kernel)
    cell = run_cell(Case("test/metal", lambda: (Mlp(), (inputs_of(0),))), "mlx:fp32")
    assert (cell.status.value, cell.stage) == ("unsupported", "run")
    assert "MetalKernelNode" in str(cell.error)
