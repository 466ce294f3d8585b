from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from backends.metal import contract
from backends.metal.cpp.syntax import UnknownFunction, WrapperError
from backends.metal.cpp.tests.wrappers import SCALE, copy, empty, launch, output, view, wrapper
from backends.metal.cpp.wrapper import Wrapper
from backends.metal.fallbacks import IMPLEMENTATIONS
from backends.metal.host import OutOfBounds
from backends.metal.machine.calls import MachineCall
from backends.metal.machine.encoder import EncodingError
from backends.metal.machine.headers import LayoutMismatch
from backends.metal.machine.machine import Machine
from backends.metal.machine.memory import OutsideStorage
from backends.metal.machine.metadata import make_check
from backends.metal.machine.shims import BadCall
from backends.metal.machine.statements import Thrown
from backends.metal.machine.values import NullHandle

SIX = torch.arange(6.0).reshape(2, 3)
BUFFER = empty("buf0", "2L, 3L", "3L, 1L")


def machine(body: str, **options: Any) -> Machine:
    constants: Sequence[torch.Tensor] = options.pop("values", ())
    layout = {key: options.pop(key) for key in ("inputs", "outputs", "constants") if key in options}
    shaders = options.pop("shaders", {})
    program = Wrapper.parse(wrapper(body, kernels=list(shaders), **layout))
    return Machine(program, shaders, constants, **options)


def test_shader_runs_over_the_buffers() -> None:
    run = machine(
        BUFFER + launch("mps_lib_0", "buf0", "arg0", "6L") + output("buf0"),
        shaders={"mps_lib_0": SCALE},
    )
    (got,) = run.run([SIX])
    assert torch.equal(got, SIX * 2)


def test_inputs_are_copied() -> None:
    given = SIX.clone()
    machine("aoti_torch_zero_(arg0);" + output("arg0")).run([given])
    assert torch.equal(given, SIX)


def test_inputs_keep_their_strides() -> None:
    (got,) = machine(output("arg0")).run([SIX.T])
    assert got.stride() == (1, 3)
    assert torch.equal(got, SIX.T)


def test_view_with_an_offset_shares_memory() -> None:
    row = view("row", "buf0", "1L, 3L", "3L, 1L", "3L")
    body = BUFFER + "aoti_torch_zero_(buf0);" + row + copy("row", "arg0") + output("buf0")
    (got,) = machine(body).run([torch.ones(1, 3)])
    assert torch.equal(got, torch.tensor([[0.0, 0, 0], [1, 1, 1]]))


def test_view_of_a_view_counts_from_it() -> None:
    body = view("tail", "arg0", "4L", "1L", "2L") + view("end", "tail", "2L", "1L", "2L")
    (got,) = machine(body + output("end")).run([SIX])
    assert got.tolist() == [4, 5]


def test_zero_strides_become_a_copy() -> None:
    wide = view("wide", "buf0", "2L, 3L", "0L, 1L")
    body = empty("buf0", "3L", "1L") + copy("buf0", "arg0") + wide + "aoti_torch_zero_(buf0);"
    (got,) = machine(body + output("wide")).run([torch.arange(3.0)])
    assert got.stride() == (3, 1)
    assert torch.equal(got, torch.arange(3.0).expand(2, 3))


def test_writes_to_a_view_with_holes_are_lost() -> None:
    left = view("left", "buf0", "2L, 2L", "3L, 1L")
    body = BUFFER + copy("buf0", "arg0") + left + "aoti_torch_zero_(left);" + output("buf0")
    (got,) = machine(body).run([SIX])
    assert torch.equal(got, SIX)


def test_reinterpreting_with_other_sizes_shares_memory() -> None:
    flat = view("flat", "buf0", "6L", "1L")
    body = BUFFER + flat + copy("flat", "arg0") + "flat.reset();" + output("buf0")
    (got,) = machine(body).run([torch.arange(6.0)])
    assert torch.equal(got, SIX)


def test_size_one_dimensions_get_the_runtimes_strides() -> None:
    (got,) = machine(empty("buf0", "2L, 1L, 3L", "3L, 99L, 1L") + output("buf0")).run([SIX])
    assert got.stride() == (3, 6, 1)


def test_sizes_come_from_the_inputs() -> None:
    body = """
    auto arg0_size = arg0.sizes();
    int64_t s0 = arg0_size[0];
    int64_t half = c10::div_floor_integer(static_cast<int64_t>(s0), static_cast<int64_t>(2L));
    const int64_t int_array_0[] = {std::max(static_cast<int64_t>(1L), half), (-1L) + 3L*s0 % 5L};
    const int64_t int_array_1[] = {(-1L) + 3L*s0 % 5L, s0 > 4L ? 1L : 1L};
    AtenTensorHandle buf0_handle;
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(2, int_array_0, int_array_1,
        cached_torch_dtype_int64, cached_torch_device_type_mps, this->device_idx_, &buf0_handle));
    RAIIAtenTensorHandle buf0(buf0_handle);
    """
    run = machine(body + output("buf0"))
    assert [tuple(run.run([torch.ones(n)])[0].shape) for n in (7, 3, 1)] == [(3, 0), (1, 3), (1, 2)]


def test_value_of_a_tensor_decides() -> None:
    body = """
    bool arg0_scalar;
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_item_bool(arg0, &arg0_scalar));
    if (arg0_scalar) {
        output_handles[0] = arg1.release();
    } else {
        output_handles[0] = arg2.release();
    }
    """
    run = machine(body, inputs=3)
    for chosen in (True, False):
        (got,) = run.run([torch.tensor(chosen), torch.ones(1), torch.zeros(1)])
        assert got.item() == chosen


def test_constants_keep_values_written_to_them() -> None:
    body = copy("weight", "arg0") + empty("buf0", "2L, 3L", "3L, 1L") + copy("buf0", "weight")
    run = machine(body + output("buf0"), constants=[("weight", "2, 3", "3, 1")], values=[SIX])
    before = SIX.clone()
    run.run([SIX + 1])
    assert torch.equal(run.constants[0], SIX + 1)
    assert torch.equal(before, SIX)


def test_one_kernel_returns_two_outputs() -> None:
    call = """
    AtenTensorHandle buf0_handle;
    AtenTensorHandle buf1_handle;
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_mps_topk(arg0, 2L, -1L, 1, 1, &buf0_handle,
        &buf1_handle));
    RAIIAtenTensorHandle buf0(buf0_handle);
    RAIIAtenTensorHandle buf1(buf1_handle);
    """
    body = call + output("buf0") + output("buf1", 1)
    values, indices = machine(body, outputs=2, fallbacks=IMPLEMENTATIONS).run([SIX])
    assert torch.equal(values, SIX.topk(2).values)
    assert torch.equal(indices, SIX.topk(2).indices)


def test_given_outputs_are_written_to() -> None:
    target = torch.empty(3, 2).T
    (got,) = machine(output("arg0")).run([SIX], [target])
    assert got is target
    assert torch.equal(target, SIX)


def unwritten(body: str) -> str:
    return body + output("arg0")


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        ("frobnicate(arg0);", UnknownFunction, "frobnicate"),
        ("aoti_torch_mps_sinkhorn(arg0);", UnknownFunction, "aoti_torch_mps_sinkhorn"),
        ("arg0.frobnicate();", UnknownFunction, "frobnicate"),
        ("arg0.reset();\naoti_torch_zero_(arg0);", NullHandle, "released before"),
        ("aoti_torch_zero_(std::move(arg0));\narg0.sizes();", NullHandle, "moved away"),
        (view("v", "arg0", "3L", "1L", "4L"), OutsideStorage, "covers bytes 16 to 28"),
        (view("v", "arg0", "3L", "1L", "-1L"), OutsideStorage, "covers bytes -4"),
        (BUFFER + copy("buf0", "inputs[7]"), WrapperError, "index 7 of 0"),
        (empty("b", "2L", "1L") + copy("b", "arg0"), BadCall, "6 elements to 2"),
        ('throw std::runtime_error("no");', Thrown, "the wrapper throws: no"),
        (
            'assert_size_stride(arg0, {2L, 3L}, {1L, 2L}, "input");',
            LayoutMismatch,
            "generated for [2, 3] with strides [1, 2]",
        ),
    ],
)
def test_errors_quote_the_line(body: str, error: type[WrapperError], text: str) -> None:
    source = wrapper(unwritten(body))
    with pytest.raises(error) as caught:
        Machine(Wrapper.parse(source), {}).run([SIX])
    assert text in str(caught.value)
    line = " ".join(source.splitlines()[caught.value.line - 1].split())
    assert line.startswith(caught.value.source.rstrip("…"))


def test_asserted_shapes_are_shown_to_the_contract() -> None:
    found: list[str] = []
    check = make_check(contract.Checker(), lambda call, violation: found.append(str(violation)))
    body = 'assert_size_stride(arg0, {3L, 2L}, {2L, 1L}, "convolution");' + output("arg0")
    with pytest.raises(LayoutMismatch):
        machine(body, check=check).run([SIX])
    assert "shape (2, 3) is not (3, 2)" in found[0]


@pytest.mark.parametrize(
    ("inputs", "constants", "text"),
    [
        ([], [], "has 1 inputs, got 0"),
        ([SIX], [SIX], "0 constants, got 1"),
        ([SIX.to(torch.complex64)], [], "input 0 has the unsupported dtype torch.complex64"),
    ],
)
def test_inputs_that_do_not_fit_the_program_are_refused(
    inputs: list[torch.Tensor], constants: list[torch.Tensor], text: str
) -> None:
    with pytest.raises(WrapperError, match=text):
        Machine(Wrapper.parse(wrapper(output("arg0"))), {}, constants).run(inputs)


def test_constant_of_another_shape() -> None:
    with pytest.raises(WrapperError, match=r"constant weight is torch\.float32"):
        machine("", constants=[("weight", "2, 3", "3, 1")], values=[SIX.T])


def test_output_that_is_never_written() -> None:
    with pytest.raises(WrapperError, match="output 0 is never written"):
        machine("").run([SIX])


def test_missing_source() -> None:
    with pytest.raises(WrapperError, match="no source for mps_lib_0"):
        Machine(Wrapper.parse(wrapper("", kernels=["mps_lib_0"])), {})


def test_kernel_beyond_its_buffer() -> None:
    body = BUFFER + launch("mps_lib_0", "buf0", "arg0", "7L") + output("buf0")
    with pytest.raises(OutOfBounds):
        machine(body, shaders={"mps_lib_0": SCALE}).run([SIX])


def test_view_with_an_offset_bounds_its_kernel() -> None:
    body = BUFFER + view("row", "buf0", "3L", "1L", "0L") + view("end", "row", "2L", "1L", "1L")
    body += launch("mps_lib_0", "end", "arg0", "3L") + output("buf0")
    with pytest.raises(OutOfBounds):
        machine(body, shaders={"mps_lib_0": SCALE}).run([SIX])


def test_kernel_without_all_its_arguments() -> None:
    body = BUFFER + launch("mps_lib_0", "buf0", "arg0", "6L") + output("buf0")
    body = body.replace("    aoti_torch_mps_set_arg_tensor(handle, 1, arg0);\n", "")
    with pytest.raises(EncodingError, match=r"takes arguments \[0, 1\] and is given \[0\]"):
        machine(body, shaders={"mps_lib_0": SCALE}).run([SIX])


def violations(run: Callable[[contract.Checker, Any], Machine], given: torch.Tensor) -> list[str]:
    found: list[str] = []

    def report(call: MachineCall, violation: contract.Violation) -> None:
        found.append(f"{call.line and call.source.split('(')[0].split()[0]}: {violation}")

    run(contract.Checker(), report).run([given])
    return found


@pytest.mark.parametrize(
    ("body", "given", "text"),
    [
        ("", SIX.T, "aoti_torch_copy_: src strides"),
        ("", SIX.half(), "aoti_torch_empty_strided: dtype float16"),
        (
            BUFFER + view("row", "buf0", "1L, 3L", "3L, 1L", "3L"),
            SIX,
            "aoti_torch__reinterpret_tensor: storage_offset 3",
        ),
        (
            view("wide", "arg0", "2L, 6L", "0L, 1L") + view("deep", "wide", "3L", "1L"),
            SIX,
            "aoti_torch__reinterpret_tensor: self strides (0, 1)",
        ),
    ],
)
def test_contract_sees_the_calls(body: str, given: torch.Tensor, text: str) -> None:
    found = violations(
        lambda checker, report: machine(body + output("arg0"), check=make_check(checker, report)),
        given,
    )
    assert any(text in violation for violation in found), found


def test_contract_finds_nothing_in_a_plain_program() -> None:
    body = BUFFER + copy("buf0", "arg0") + view("v", "buf0", "3L, 2L", "1L, 3L") + output("v")
    assert not violations(
        lambda checker, report: machine(body, check=make_check(checker, report)), SIX
    )
