from __future__ import annotations

import pytest
import torch

from backends.metal.cpp.parser import parse_function
from backends.metal.cpp.syntax import (
    Assign,
    CppSource,
    Declare,
    Do,
    If,
    Literal,
    UnknownStatement,
    WrapperError,
)
from backends.metal.cpp.tests.wrappers import copy, empty, launch, output, view, wrapper
from backends.metal.cpp.wrapper import KernelName, Wrapper
from backends.metal.cpp.wrapper_text import list_wrapper
from backends.metal.generation.generate import generate
from backends.metal.tests.programs import Apply, partition


def body(text: str) -> tuple[object, ...]:
    source = CppSource(f"void f(int64_t a)\n{{\n{text}\n}}\n")
    return parse_function(source, "f", source.text.index("(")).body


def test_statements_keep_their_line() -> None:
    first, second = body("    int64_t x = 1L;\n    f(x);")
    assert isinstance(first, Declare)
    assert isinstance(second, Do)
    assert (first.line, second.line) == (3, 4)


@pytest.mark.parametrize(
    "text",
    [
        "static constexpr int64_t int_array_0[] = {1L, };",
        "static constexpr int64_t *int_array_0=nullptr;",
        "[[maybe_unused]] auto& weight = constants_->at(0);",
        "std::function<void(AOTIMetalKernelFunctionHandle)> wrapped = lambda;",
        "RAIIAtenTensorHandle buf0(buf0_handle);",
        "const int64_t int_array_2[] = {s0, c10::div_floor_integer(static_cast<int64_t>(s0), 2L)};",
    ],
)
def test_declarations(text: str) -> None:
    (found,) = body(text)
    assert isinstance(found, Declare)


def test_negative_numbers_are_numbers() -> None:
    (found,) = body("int64_t x = -3L;")
    assert isinstance(found, Declare)
    assert found.value == Literal(-3)


def test_alignment_check_is_a_condition() -> None:
    (found,) = body(
        "if ((reinterpret_cast<std::uintptr_t>(a.data_ptr()) & (16 -1)) != 0) { a = b; }"
    )
    assert isinstance(found, If)
    assert isinstance(found.then[0], Assign)


def test_comments_and_raw_strings_hold_nothing() -> None:
    assert body('f(R"(} // ;)"); // } \n /* } */') == body('f("} // ;");')


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Tensor x(f(y), a * b);", "Tensor x = Tensor(f(y), a * b);"),
        ("int64_t x(a * b);", "int64_t x = static_cast<int64_t>(a * b);"),
        ("f(-(a) + b * c);", "f((-a) + (b * c));"),
        ("f((g(a, b)) * (g(c, d)));", "f(g(a, b) * g(c, d));"),
        ("f(a < b, c > (d));", "f((a < b), (c > d));"),
    ],
)
def test_expressions_that_depend_on_declarations_are_read_as_values(text: str, plain: str) -> None:
    assert body(text) == body(plain)


@pytest.mark.parametrize(
    "text",
    [
        "for (;;) {}",
        "goto end;",
        "int64_t x = ;",
        "int64_t x, y;",
        "unsigned long x = 1;",
        "Tensor x();",
        "Tensor x(int64_t y);",
        "a.b.;",
        "x ? y;",
        "x += 1;",
        "f(x, );",
        "f(&&x);",
        "f(010);",
        "f(x >> 1);",
        "f(sizeof(int));",
        "f((T)x);",
        "f(static_cast<decltype(x)>(y));",
        "g<int>(x);",
        "auto @ = 1;",
        "auto g = [=](int64_t x) { f(x); };",
        "using T = int64_t;",
        "f(x",
    ],
)
def test_an_error_quotes_unknown_source(text: str) -> None:
    with pytest.raises(UnknownStatement) as caught:
        body(text)
    assert caught.value.line == 3
    assert caught.value.source == text


def test_an_unknown_statement_in_a_wrapper_names_its_line() -> None:
    source = wrapper("goto out;")
    with pytest.raises(UnknownStatement) as caught:
        Wrapper.parse(source)
    assert source.splitlines()[caught.value.line - 1].strip() == "goto out;"


def test_other_text_is_no_wrapper() -> None:
    with pytest.raises(WrapperError, match="not an AOTI wrapper"):
        Wrapper.parse("int main() { return 0; }")


def test_constants_folded_at_run_time_are_refused() -> None:
    folding = "void AOTInductorModel::_const_run_impl(\n    int a\n) {\n    fold();\n}\n"
    with pytest.raises(UnknownStatement, match="folded at run time"):
        Wrapper.parse(wrapper("") + folding)


def test_missing_constants_are_reported() -> None:
    source = wrapper("", constants=[("weight", "2, 3", "3, 1")])
    with pytest.raises(WrapperError, match="description of a constant is incomplete"):
        Wrapper.parse(source.replace("constants_info_[0].shape", "x"))
    with pytest.raises(WrapperError, match="1 constants are declared, 0 described"):
        Wrapper.parse(source.replace("constants_info_", "x"))


def test_constants_and_kernels() -> None:
    program = Wrapper.parse(
        wrapper("", constants=[("weight", "2, 3", "3, 1")], kernels=["mps_lib_0"])
    )
    (info,) = program.constants
    assert (info.name, info.dtype, info.shape, info.strides) == (
        "weight",
        "float32",
        (2, 3),
        (3, 1),
    )
    assert program.kernels == {"get_mps_lib_0_handle": KernelName("mps_lib_0", "generated_kernel")}


def test_listing() -> None:
    source = wrapper(
        empty("buf0", "2L, 3L", "3L, 1L")
        + launch("mps_lib_0", "buf0", "arg0", "6L")
        + view("var_0", "buf0", "3L, 2L", "1L, 3L", "1L")
        + copy("buf0", "arg0")
        + output("var_0"),
        kernels=["mps_lib_0"],
    )
    assert list(list_wrapper(Wrapper.parse(source))) == [
        "1 inputs, 1 outputs",
        "kernel mps_lib_0: generated_kernel",
        "   1 buf0 = empty float32 [2, 3] strides [3, 1] on mps",
        "   2 mps_lib_0(buf0: float32 [2, 3], arg0) threads 6",
        "   3 var_0 = (buf0: float32 [2, 3] + 1 as [3, 2] strides [1, 3])",
        "   4 aoti_torch_copy_(buf0: float32 [2, 3], arg0, 0)",
        "output_handles[0] = var_0",
    ]


def test_generated_wrapper() -> None:
    generated = generate(partition(torch.nn.Linear(8, 16), torch.ones(2, 8)))
    program = Wrapper.parse(generated.wrapper)
    assert [info.name for info in program.constants] == [
        constant.spec.name for constant in generated.constants
    ]
    assert {kernel.library for kernel in program.kernels.values()} == set(generated.kernels)
    assert any("aoti_torch_mps_mm_out" in line for line in list_wrapper(program))


def test_generated_reduction_states_its_threadgroups() -> None:
    program = Wrapper.parse(
        generate(partition(Apply(lambda a: a.sum(-1)), torch.ones(3, 70))).wrapper
    )
    assert any("threads [3, 70] groups of [1, 70]" in line for line in list_wrapper(program))
