"""A MIL function runs with branches, loops and states, and refuses what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coremltools
import numpy
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb

from backends.coreml.execution import executor
from backends.coreml.execution.delegate import make_executor, make_handle
from backends.coreml.execution.executor import MilExecutor
from backends.coreml.kernels import KERNELS
from backends.coreml.payload import metadata, reader
from backends.coreml.payload.metadata import CoremlModel, MilInterface
from backends.coreml.payload.program import MilProgram
from backends.coreml.payload.tests.payloads import real
from harness import ProgramError, UnsupportedProgram
from harness.backend_api import DelegatePayload


def convert(program: Any) -> MilProgram:
    """Read a program that coremltools' builder made."""
    model = coremltools.convert(
        program,
        convert_to="mlprogram",
        compute_precision=coremltools.precision.FLOAT32,
        minimum_deployment_target=coremltools.target.iOS18,
        skip_model_load=True,
    )
    message = model.get_spec()
    names = [
        tuple(each.name for each in features)
        for features in (message.description.input, message.description.output)
    ]
    return reader.read_model(
        CoremlModel(memoryview(message.SerializeToString()), {}, MilInterface(*names), "")
    )


def run(program: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return MilExecutor(convert(program), KERNELS)(list(inputs))


def test_a_branch_runs_one_of_its_blocks() -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(3,))], opset_version=coremltools.target.iOS18)
    def program(x: Any) -> Any:
        positive = mb.greater(x=mb.reduce_sum(x=x, axes=[0], keep_dims=False), y=0.0)
        return mb.cond(
            pred=positive, _true_fn=lambda: mb.add(x=x, y=1.0), _false_fn=lambda: mb.mul(x=x, y=2.0)
        )

    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(run(program, x)[0], x + 1)
    assert torch.equal(run(program, -x)[0], -x * 2)


def test_a_loop_carries_its_values() -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=coremltools.target.iOS18)
    def program(x: Any) -> Any:
        count = mb.cast(x=mb.reduce_sum(x=x, axes=[0], keep_dims=False), dtype="int32")
        _, total = mb.while_loop(
            _cond=lambda at, total: mb.less(x=at, y=count),
            _body=lambda at, total: (mb.add(x=at, y=1), mb.add(x=total, y=x)),
            loop_vars=(0, mb.mul(x=x, y=0.0)),
        )
        return total

    assert run(program, torch.tensor([5.0]))[0].item() == 25.0
    assert run(program, torch.tensor([0.0]))[0].item() == 0.0


def test_an_endless_loop_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_MAX_STEPS", 1_000)

    @mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=coremltools.target.iOS18)
    def program(x: Any) -> Any:
        total = mb.while_loop(
            _cond=lambda total: mb.less(x=mb.reduce_sum(x=total, axes=[0], keep_dims=False), y=1.0),
            _body=lambda total: mb.mul(x=total, y=0.5),
            loop_vars=(x,),
        )
        return total

    with pytest.raises(ProgramError, match="runs more than 1000 operations"):
        run(program, torch.tensor([0.5]))


def test_states_persist_between_calls_and_begin_as_zeros() -> None:
    executor = make_executor(real("stateful"))
    call = make_handle(executor)
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    first, flag = torch.empty(4, 16), torch.empty((), dtype=torch.bool)
    second, whole = torch.empty(4, 16), torch.empty(4, 32, dtype=torch.int64)
    call([x, first, flag, whole])
    call([x, second, flag, whole])
    assert flag.item() is True
    assert torch.equal(whole, (x * 2).to(torch.int64))
    # y + y, then y + 2 y, with sums in a state of float16.
    assert torch.allclose(second, first * 1.5, rtol=1e-3, atol=1e-3)
    other = torch.empty(4, 16)
    make_handle(make_executor(real("stateful")))([x, other, flag, whole])
    assert torch.equal(other, first)


def _call(edit: Callable[[list[Any]], object]) -> None:
    arguments: list[Any] = [
        torch.ones(4, 32),
        torch.empty(4, 16),
        torch.empty((), dtype=torch.bool),
        torch.empty(4, 32, dtype=torch.int64),
    ]
    edit(arguments)
    make_handle(make_executor(real("stateful")))(arguments)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda a: a.pop(), "1 inputs and 3 outputs, the program passes 3"),
        (lambda a: a.__setitem__(0, 3), "is 3: the delegate passes tensors only"),
        (lambda a: a.__setitem__(0, torch.ones(4, 31)), "has shape \\[4, 31\\]"),
        (lambda a: a.__setitem__(0, torch.ones(4, 32, dtype=torch.bfloat16)), "is torch.bfloat16"),
        (lambda a: a.__setitem__(1, None), "the program plans None"),
        (lambda a: a.__setitem__(1, torch.empty(64)), "the program plans \\[64\\]"),
        (lambda a: a.__setitem__(1, torch.empty(4, 15)), "more than the program plans"),
        (lambda a: a.__setitem__(1, torch.empty(4, 16, dtype=torch.int8)), "is torch.int8"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    edit: Callable[[list[Any]], object], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        _call(edit)


def test_an_operation_without_a_kernel_is_named() -> None:
    kernels = {kind: kernel for kind, kernel in KERNELS.items() if kind != "relu"}
    with pytest.raises(UnsupportedProgram, match="the MIL operation relu has no kernel"):
        make_executor(real("stateful"), kernels)


def test_a_result_of_another_type_is_refused() -> None:
    kernels = {**KERNELS, "relu": lambda x: x.double()}
    executor = make_executor(real("stateful"), kernels)
    with pytest.raises(ProgramError, match=r"relu .*float64\[4, 16\], it declares fp32\[4, 16\]"):
        executor([torch.ones(4, 32)])


def test_an_error_of_a_kernel_names_the_operation() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise IndexError("out of range")

    executor = make_executor(real("stateful"), {**KERNELS, "relu": broken})
    with pytest.raises(ProgramError, match=r"CoreML operation relu .*: out of range"):
        executor([torch.ones(4, 32)])


def test_integers_wrap_and_scalars_gain_a_dimension() -> None:
    @mb.program(
        input_specs=[mb.TensorSpec(shape=(1,), dtype=coremltools.converters.mil.mil.types.int32)],
        opset_version=coremltools.target.iOS18,
    )
    def program(x: Any) -> Any:
        return mb.add(x=x, y=numpy.int32(1))

    call = make_handle(MilExecutor(convert(program), KERNELS))
    output = torch.empty((), dtype=torch.int64)
    call([torch.tensor(2**32 + 6), output])  # int64 of rank 0, as int32 of shape [1]
    assert output.item() == 7


def test_a_filled_tensor_has_the_dtype_of_its_constant() -> None:
    half = coremltools.converters.mil.mil.types.fp16

    @mb.program(
        input_specs=[mb.TensorSpec(shape=(2, 3), dtype=half)],
        opset_version=coremltools.target.iOS18,
    )
    def program(x: Any) -> Any:
        ones = mb.fill_like(ref_tensor=mb.greater(x=x, y=numpy.float16(0)), value=numpy.float16(1))
        return mb.add(x=x, y=ones)

    x = torch.ones(2, 3, dtype=torch.float16)
    assert torch.equal(run(program, x)[0], x + 1)


def test_a_payload_may_be_loaded_twice() -> None:
    payload: DelegatePayload = real("fp16")
    assert metadata.find_model(payload.data, {}).function == ""
    x = torch.ones(4, 32, dtype=torch.float16)
    first, second = (make_executor(payload)([x])[0] for _ in range(2))
    assert torch.equal(first, second)
