"""A recognised pattern becomes one instruction; a similar graph does not.

The cells of the suite check the values. These tests count the instructions, because the values
stay right when a pattern is no longer recognized.
"""

from __future__ import annotations

from collections import Counter

import pytest
from executorch.exir.lowered_backend_module import get_lowered_backend_modules

from backends.mlx.payload import reader
from harness import Case, Tester
from suites.mlx import patterns
from suites.mlx.only import on_mlx


def instructions(case: Case, target: str) -> Counter[str]:
    """Node types in the payloads of a case's program, all chains."""
    (prepared,) = on_mlx(case)
    lowered = Tester(prepared, target).export().lower().lowered
    graphs = [
        reader.load(module.processed_bytes)
        for module in get_lowered_backend_modules(lowered.exported_program().graph_module)
    ]
    return Counter(node.kind for graph in graphs for chain in graph.chains for node in chain)


def cases(listed: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", listed, ids=[case.name for case in listed])


@pytest.mark.parametrize("target", ["mlx:fp32", "mlx:bf16"])
@cases(patterns.FUSED)
@pytest.mark.one_of(3)
def test_a_norm_is_one_instruction(case: Case, target: str) -> None:
    found = instructions(case, target)
    assert found["RMSNormNode"] == (2 if "twice" in case.name else 1)
    assert (found["RsqrtNode"], found["MeanNode"]) == (0, 0)


@cases(patterns.FUSED_FP32)
def test_a_norm_without_casts_is_one_instruction_in_float32(case: Case) -> None:
    assert instructions(case, "mlx:fp32")["RMSNormNode"] == 1
    assert instructions(case, "mlx:bf16")["RsqrtNode"] == 1


@cases(patterns.NOT_FUSED)
def test_other_norms_are_not_fused(case: Case) -> None:
    found = instructions(case, "mlx:fp32")
    assert (found["RMSNormNode"], found["RsqrtNode"]) == (0, 1)


@pytest.mark.xfail(strict=True, reason="RMSNormMatch: see suites/mlx/limitations/patterns.py")
@cases([case for case in patterns.LOOK_ALIKES if "result" not in case.name])
def test_a_similar_pattern_is_not_fused(case: Case) -> None:
    assert instructions(case, "mlx:fp32")["RMSNormNode"] == 0


@cases(patterns.ONE_ATTENTION)
@pytest.mark.one_of(3)
def test_attention_is_one_instruction(case: Case) -> None:
    found = instructions(case, "mlx:fp32")
    assert found["SdpaNode"] == 1
    rest = set(found) - {"SdpaNode", "ExpandDimsNode", "SliceNode", "SqueezeNode", "SymSizeNode"}
    # The infinite mask is made by the program itself.
    assert rest <= ({"FullNode", "WhereNode"} if "infinite" in case.name else set())


@cases(patterns.SEVERAL_STEPS)
def test_attention_that_the_instruction_cannot_compute_is_decomposed(case: Case) -> None:
    found = instructions(case, "mlx:fp32")
    assert (found["SdpaNode"], found["SoftmaxNode"]) == (0, 1)


@cases(patterns.REPEATS_APART)
def test_repeated_heads_that_cannot_be_dropped_are_kept(case: Case) -> None:
    found = instructions(case, "mlx:fp32")
    assert found["SdpaNode"] == 1
    assert found["TileNode"] + found["BroadcastToNode"] == 2


@pytest.mark.xfail(strict=True, reason="SDPAHandler: see suites/mlx/limitations/patterns.py")
@cases(patterns.TAKEN_WRONGLY)
def test_attention_that_the_instruction_computes_wrongly_is_decomposed(case: Case) -> None:
    assert instructions(case, "mlx:fp32")["SoftmaxNode"] == 1


@cases(patterns.ROPE[:-1])
@pytest.mark.one_of(3)
def test_a_rotation_is_one_instruction(case: Case) -> None:
    assert instructions(case, "mlx:fp32") == {"ItemIntNode": 1, "RopeNode": 1}
