"""Each rule of the Metal runtime's contract reports its violations, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.metal.contract import (
    FUNCTIONS,
    CallTensor,
    Checker,
    RuntimeCall,
    ViolationKind,
    bind,
    check,
    contract_document,
    contract_table,
    implemented,
)
from backends.metal.contract.layout import (
    can_index_copy,
    compute_strides,
    get_runtime_strides,
    is_packed,
)
from backends.metal.contract.rule import (
    CONV_STRIDES,
    MASK_DTYPE,
    NO_ADDMM,
    PACKED_COPIES,
    STALE_VIEWS,
)
from backends.metal.contract.tests.contract_calls import BAD, GOOD, LAST, PREFIX, meta, sdpa
from backends.metal.fallbacks import IMPLEMENTATIONS
from backends.metal.generation.upstream import MetalBackend


def call(function, changes):
    return RuntimeCall(function, GOOD.get(function, {}) | changes)


@pytest.mark.parametrize("function", GOOD)
def test_a_conforming_call_is_left_alone(function):
    assert [str(one) for one in Checker().check(call(function, {}))] == []


@pytest.mark.parametrize(("function", "changes", "kind", "text"), BAD)
def test_a_violating_call_is_found(function, changes, kind, text):
    found = check(call(function, changes))
    lines = [str(one) for one in found if one.kind is kind]
    assert any(text in line for line in lines), [str(one) for one in found]
    assert all(line.startswith(f"{function}: ") and "\n" not in line for line in lines)


def test_each_rule_has_a_call_that_breaks_it():
    fired = set()
    for function, changes, _, _ in BAD:
        fired |= {id(one.rule) for one in check(call(function, changes))}
    silent = [
        (row.name, rule.argument, rule.requirement)
        for row in FUNCTIONS.values()
        for rule in row.rules
        if id(rule) not in fired
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("function", "changes", "link"),
    [
        # MobileNetV3: channels-last from Inductor's layout optimization.
        ("mps_convolution", {"input": LAST}, CONV_STRIDES),
        # The second half of a linear's result, by columns and by rows.
        ("_reinterpret_tensor", {"storage_offset": 3}, STALE_VIEWS),
        (
            "_reinterpret_tensor",
            {"sizes": (2, 6), "strides": (6, 1), "storage_offset": 12},
            STALE_VIEWS,
        ),
        # A cat filled through views along the channels of a channels-last tensor.
        (
            "mps_set_arg_tensor",
            {"tensor": meta(1, 32, 80, 80, strides=(819200, 1, 10240, 128))},
            PACKED_COPIES,
        ),
        # A float32 mask with bfloat16 queries.
        (
            "mps__scaled_dot_product_attention_math_for_mps",
            {
                name: meta(*sdpa()[name].sizes, dtype="bfloat16")
                for name in ("query", "key", "value")
            },
            MASK_DTYPE,
        ),
    ],
)
def test_known_defects_carry_their_link(function, changes, link):
    found = check(call(PREFIX + function, changes))
    assert link in {one.link for one in found}
    assert {one.kind for one in found} == {ViolationKind.DEFECT}


def test_a_bias_expanded_with_stride_zero_is_copied_densely():
    """Refused before reinterpret_tensor copied; kernels get the part within the buffer."""
    view = bind(PREFIX + "_reinterpret_tensor", meta(5, origin="constant"), 2, (3, 5), (0, 1), 0)
    assert check(view) == []
    expanded = meta(3, 5, strides=(0, 1))
    assert check(call(PREFIX + "mps_addmm_out", {"self": expanded})) == []
    columns = meta(3, 5, strides=(1, 0))
    [found] = check(call(PREFIX + "mps_set_arg_tensor", {"tensor": columns}))
    assert found.link == PACKED_COPIES


def test_views_of_inputs_and_constants_may_have_offsets():
    for origin in ("input", "constant"):
        parent = meta(4, 6, origin=origin, storage_size=96)
        changes = {"self": parent, "storage_offset": 3}
        assert check(call(PREFIX + "_reinterpret_tensor", changes)) == []


def test_a_batch_of_one_may_come_with_a_stride_that_bmm_refuses():
    row = meta(1, 3, 4, strides=(0, 4, 1))
    changes = {"self": row, "mat2": meta(1, 4, 5), "out": meta(1, 3, 5)}
    [found] = check(call(PREFIX + "mps_bmm_out", changes))
    assert "stored as (1, 4, 1)" in str(found)


@pytest.mark.parametrize(("name", "alone"), [("stride", 1), ("padding", 0), ("dilation", 1)])
def test_one_number_may_replace_a_list_if_it_is_also_the_default(name, alone):
    """``padding="valid"`` is passed as one 0 for two dimensions."""
    assert check(call(PREFIX + "mps_convolution", {name: (alone,), f"{name}_len": 1})) == []
    empty = {name: (alone,), "input": meta(1, 4, 2, 2), "padding": (0,), "padding_len": 1}
    [found] = check(call(PREFIX + "mps_convolution", empty))
    assert "gives a result of extents" in str(found)


def test_a_graph_compiled_without_bias_is_reused_with_it():
    checker, name = Checker(), PREFIX + "mps_convolution"
    assert checker.check(call(name, {})) == []
    assert checker.check(call(name, {})) == []
    found = checker.check(call(name, {"bias": meta(6)}))
    assert any("whose graph is reused" in str(one) for one in found)
    other = checker.check(call(name, {"bias": meta(6), "padding": (0, 0)}))
    assert not any("whose graph is reused" in str(one) for one in other)


def test_a_graph_of_addmm_is_reused_for_another_bias():
    checker, name = Checker(), PREFIX + "mps_addmm_out"
    assert checker.check(call(name, {"self": meta(1, 5)})) == []
    [found] = checker.check(call(name, {"self": meta(3, 5)}))
    assert "(3, 5) after (1, 5)" in str(found)


def test_functions_that_do_not_exist():
    [found] = check(bind(PREFIX + "mps_cumsum", meta(3), 0, None))
    assert str(found) == "aoti_torch_mps_cumsum: is not in v1.5.1 [missing]"
    assert check(bind("some_function_of_the_wrapper", meta(3))) == []
    assert check(bind(PREFIX + "dtype_float32")) == []
    assert [one.kind for one in check(bind(PREFIX + "dtype_float64"))] == [ViolationKind.MISSING]
    with pytest.raises(TypeError, match="without mat2"):
        bind(PREFIX + "mps_mm_out", meta(3), meta(3))


def test_the_release_in_use_lists_the_same_kernels():
    listed = MetalBackend.get_supported_fallback_kernels()
    named = {name for name in listed if name.startswith(PREFIX)}
    for name in set(listed) - named:
        kernel = name.removeprefix("at::_ops::").removesuffix("::call").rpartition("::")[2]
        named.add(f"{PREFIX}mps_{kernel}")
    assert named == set(IMPLEMENTATIONS)
    assert all(implemented(name) for name in named)
    assert {name.removeprefix(PREFIX) for name in named} >= {"mps_addmm_out"}, NO_ADDMM


@pytest.mark.parametrize(
    ("sizes", "strides", "dense", "stored"),
    [
        ((2, 3), (3, 1), True, (3, 1)),
        ((2, 3), (1, 2), True, (1, 2)),
        ((2, 1, 4), (4, 1, 1), True, (4, 4, 1)),
        ((2, 3), (6, 1), False, (3, 1)),
        ((2, 3), (0, 1), False, (3, 1)),
        ((1, 3), (0, 1), True, (1, 1)),
        ((1, 3, 4), (0, 4, 1), True, (1, 4, 1)),
        ((), (), True, ()),
    ],
)
def test_layout(sizes, strides, dense, stored):
    assert is_packed(sizes, strides) is dense
    assert get_runtime_strides(CallTensor("float32", sizes, strides)) == stored
    assert (compute_strides(sizes, strides) is not None) is dense


@pytest.mark.parametrize(
    ("sizes", "strides", "alike"),
    [
        ((3, 4), (0, 1), True),
        ((2, 3, 4), (0, 0, 1), True),
        ((2, 3, 4), (0, 4, 1), True),
        ((2, 3, 4), (4, 0, 1), False),
        ((3, 4), (1, 0), False),
        ((3, 4), (8, 1), False),
    ],
)
def test_which_copies_have_the_same_layout(sizes, strides, alike):
    assert can_index_copy(CallTensor("float32", sizes, strides)) is alike


def test_table():
    table = contract_table()
    assert table.count("\n| `") == sum(
        len(row.rules) + (row.shared is not None) for row in FUNCTIONS.values()
    )
    assert "blob/v1.5.1/backends/apple/metal/runtime/ops/op_mm.mm" in table
    assert CONV_STRIDES in table


def test_the_page_is_current():
    page = Path(__file__).parents[4] / "docs" / "metal_contract.md"
    assert page.read_text() == contract_document(), "run python -m backends.metal.contract"
