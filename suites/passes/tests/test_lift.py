"""Numbers that ``+lift`` turns into constants, and numbers that it keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from executorch.runtime import Runtime

from harness import Case, Tester
from suites.models import published
from suites.passes.lift import CASES

PLAIN, LIFTED = "xnnpack:fp32", "xnnpack:fp32+lift"

# Number of mul.Scalar that remain with the pass; all other cases have none.
LEFT = {
    "lift/bfloat16": 2,  # 0.1 is another number there
    "lift/conditional": 2,  # both are in the branches
    # XNNPACK's pattern takes the scale from them.
    "lift/attention": 2,
    "lift/attention_spelled": 2,
    "lift/attention_cast": 2,
    "lift/attention_permuted": 2,
}


def _lowered(case: Case, target: str) -> Tester:
    return Tester(case, target).export().lower()


def _scaling(tester: Tester) -> int:
    """Number of ``mul.Scalar`` nodes of a program outside of delegates, including branches."""
    return sum(
        str(node.target).count("aten.mul.Scalar")
        for module in tester.lowered.exported_program().graph_module.modules()
        if hasattr(module, "graph") and not hasattr(module, "backend_id")
        for node in module.graph.nodes
        if node.op == "call_function"
    )


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nodes_that_remain(case: Case) -> None:
    tester = _lowered(case, LIFTED)
    ops: Counter[str] = Counter(tester.delegation.undelegated_ops)
    assert ops["aten.mul.Scalar"] <= LEFT.get(case.name, 0)
    assert _scaling(tester) == LEFT.get(case.name, 0)


def test_each_number_is_one_constant() -> None:
    case = next(case for case in CASES if case.name == "lift/one_number_each")
    edge = Tester(case, LIFTED).export().to_edge().transform().edge.exported_program()
    # 0.1 and 0.1 + 2**-30 are one number in float32; 0.0 and -0.0 are two.
    assert len(edge.graph_signature.lifted_tensor_constants) == 5
    assert len(edge.constants) == 5


@pytest.mark.parametrize("kept_in", ["bytes", "file"])
def test_a_constant_is_handed_to_the_delegate(kept_in: str, tmp_path: Path) -> None:
    """XNNPACK reads constants that it does not pack at each call. Payload bytes from a file are
    freed after loading: executorch 1.4.0 crashes on a constant in them."""
    case = next(case for case in CASES if case.name == "lift/float")
    tester = _lowered(case, LIFTED).to_executorch().serialize()
    graph = tester.lowered.exported_program().graph
    (lifted,) = (node for node in graph.nodes if node.name.startswith("_lifted_scalar"))
    (user,) = lifted.users
    assert user.target is torch.ops.higher_order.executorch_call_delegate

    path = tmp_path / "program.pte"
    path.write_bytes(tester.program)
    loaded = Runtime.get().load_program(path if kept_in == "file" else path.read_bytes())
    method = loaded.load_method("forward")
    assert method is not None
    (value,) = tester.built.inputs
    torch.testing.assert_close(method.execute([value]), list(tester.built.module(value)))


@pytest.mark.nightly
def test_deit_tiny_with_and_without() -> None:
    case = next(case for case in published.CASES if case.name == "deit/tiny_224")
    plain, lifted = (_lowered(case, target).delegation for target in (PLAIN, LIFTED))
    assert plain.undelegated_ops["aten.mul.Scalar"] == 24
    assert "aten.mul.Scalar" not in lifted.undelegated_ops
    assert lifted.delegates <= plain.delegates
    assert lifted.delegated_nodes == plain.delegated_nodes + 24
    assert lifted.undelegated_nodes == plain.undelegated_nodes - 24
    for attention in ("aten._softmax.default", "aten.bmm.default"):
        assert lifted.delegated_ops[attention] == plain.delegated_ops[attention] > 0
