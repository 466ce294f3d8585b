"""Programs that are not exported, decomposed or walked again are what they would have been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir import pass_base
from executorch.exir.debug_handle_utils import get_greatest_ancestor_node_identifier
from torch.export import Dim, ExportedProgram, default_decompositions, export
from torch.fx import GraphModule, Node
from torch.testing._internal.two_tensor import TwoTensor

from harness import Case, Tester
from harness.pipeline import speed
from harness.pipeline.reference.unchanged import GraphNodes, ProgramSnapshot
from harness.pipeline.route import lower
from harness.pipeline.shared_case_work import SharedCaseWork
from harness.pipeline.speed.export import decompositions as decomposing
from harness.pipeline.speed.passes import skipped_walks
from harness.pipeline.speed.tests.graphs import NET, Net, are_alike, drawn

TARGETS = ["portable:fp32", "xnnpack:fp32", "tosa:fp", "mlx:fp32", "xnnpack:int8", "tosa:int"]


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x + self.calls


@pytest.fixture(autouse=True)
def _installed() -> None:
    speed.install()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", TARGETS)
def test_a_walk_that_is_skipped_changes_nothing(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped: set[str] = set()
    says = skipped_walks._has_no_effect

    def checked(walking: Any, module: GraphModule) -> bool:
        nothing = says(walking, module)
        if nothing:
            skipped.add(type(walking).__name__)
            assert drawn(skipped_walks._upstream(walking, module).graph_module) == drawn(module)
        return nothing

    monkeypatch.setattr(skipped_walks, "_has_no_effect", checked)
    lower(Tester(NET, target))
    assert {"NormalizeTransposePass", "ReplaceBrokenOpsWithFunctionalOpsPass"} <= skipped
    if target.startswith("xnnpack"):
        assert {"FuseBatchNormPass", "Conv1dUnsqueezePass"} <= skipped
    if target.startswith("tosa"):
        assert "InsertDataLayoutCastsPass" in skipped


class Doubling(pass_base.ExportPass):
    """A pass that a user wrote."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        value = super().call_operator(op, args, kwargs, meta)
        return super().call_operator(torch.ops.aten.add.Tensor, (value, value), {}, meta)


def _walked(*passes: Any) -> GraphModule:
    module = export(torch.nn.ReLU(), (torch.randn(3),)).graph_module
    for walking in passes:
        module = walking(module).graph_module
    return module


def test_a_pass_with_a_hook_of_its_own_is_run() -> None:
    plain = pass_base.ExportPass
    once, twice = _walked(plain(), Doubling()), _walked(plain(), Doubling(), Doubling())
    assert [len(module.graph.nodes) for module in (once, twice)] == [4, 6]


def test_a_graph_that_was_touched_is_walked() -> None:
    module = _walked(pass_base.ExportPass())
    assert pass_base.ExportPass()(module).graph_module is module
    (relu,) = (node for node in module.graph.nodes if node.op == "call_function")
    relu.target = torch.ops.aten.neg.default
    assert pass_base.ExportPass()(module).graph_module is not module


@pytest.mark.parametrize(
    "change",
    [
        lambda node: setattr(node, "target", torch.ops.aten.neg.default),
        lambda node: setattr(node, "args", (node.args[0],)),
        lambda node: setattr(node, "kwargs", {"alpha": 2}),
        lambda node: node.meta.update(val=node.meta["val"].clone()),
        lambda node: node.graph.erase_node(node.replace_all_uses_with(node.args[0]) and node),
    ],
)
def test_any_change_of_a_node_shows(change: Callable[[Node], Any]) -> None:
    graph = export(torch.nn.ReLU(), (torch.randn(3),)).graph
    before = GraphNodes(graph)
    assert before.match(graph)
    change(next(node for node in graph.nodes if node.op == "call_function"))
    assert not before.match(graph)


def test_a_write_to_a_weight_shows() -> None:
    module = torch.nn.Linear(2, 2)
    program = export(module, (torch.randn(1, 2),))
    before = ProgramSnapshot(program)
    assert before.matches(program)
    with torch.no_grad():
        module.weight.add_(1)
    assert not before.matches(program)


class Writes(Net):
    """Of what tracing anew changes: a write, a view that may be a copy, what nobody uses."""

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.conv(input)
        y.add_(1)
        return y.reshape(-1), y.sort(-1)[0]


def test_a_program_is_made_functional_once(decompositions: list[Any]) -> None:
    program = export(Writes(), (torch.randn(2, 3, 8, 8),))
    made = [program.run_decompositions({}) for _ in range(2)]
    assert len(decompositions) == 1
    are_alike(made[0], made[1])
    assert made[0].graph is not made[1].graph
    are_alike(made[0], decomposing._upstream(program, {}))


def test_what_is_functional_is_not_made_so(decompositions: list[Any]) -> None:
    program = export(Net(), (torch.randn(2, 3, 8, 8),))
    made = program.run_decompositions({})
    assert not decompositions
    upstream = decomposing._upstream(program, {})
    are_alike(made, upstream)
    assert made.verifiers == upstream.verifiers
    for node, theirs in zip(made.graph.nodes, upstream.graph.nodes, strict=True):
        if node.op == "call_function":
            assert str(node.meta["original_aten"]) == str(theirs.meta["original_aten"])
            ancestor = get_greatest_ancestor_node_identifier(theirs)
            assert get_greatest_ancestor_node_identifier(node) == ancestor


def test_weights_of_a_kind_of_their_own_are_taken_apart(decompositions: list[Any]) -> None:
    layer = torch.nn.Linear(32, 4)
    layer.weight = torch.nn.Parameter(TwoTensor(layer.weight.data, layer.weight.data.clone()))
    made = export(layer, (torch.randn(2, 32),)).run_decompositions({})
    assert len(decompositions) == 1
    assert len(made.graph_signature.parameters) == 3


class WritesToInput(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


def test_what_writes_to_an_input_is_decomposed_each_time(decompositions: list[Any]) -> None:
    """A write becomes an operator of its own when it is decomposed again."""
    program = export(WritesToInput(), (torch.randn(3),)).run_decompositions({})
    twice = program.run_decompositions(default_decompositions())
    assert len(decompositions) == 2
    assert torch.ops.aten.copy.default in {node.target for node in twice.graph.nodes}


def test_what_is_decomposed_is_not_decomposed_again(decompositions: list[Any]) -> None:
    program = export(Net(), (torch.randn(2, 3, 8, 8),))
    once = program.run_decompositions(default_decompositions())
    twice = once.run_decompositions(default_decompositions())
    thrice = twice.run_decompositions(default_decompositions())
    assert len(decompositions) == 1
    assert drawn(once.graph_module) == drawn(twice.graph_module) == drawn(thrice.graph_module)
    upstream = decomposing._upstream(once, default_decompositions())
    assert drawn(upstream.graph_module) == drawn(once.graph_module)
    relu = next(node for node in twice.graph.nodes if "relu" in node.name)
    relu.target = torch.ops.aten.relu6.default
    twice.run_decompositions(default_decompositions())
    assert len(decompositions) == 3, "one that decomposes came in"


def test_symbols_and_branches_are_left_to_upstream(decompositions: list[Any]) -> None:
    rows = {0: Dim("rows", min=2, max=9)}
    program = export(torch.nn.ReLU(), (torch.randn(3, 2),), dynamic_shapes=(rows,))
    program.run_decompositions({})
    program.run_decompositions({})
    assert len(decompositions) == 2


def test_an_operator_that_is_left_out_of_a_table_stays() -> None:
    """A table forgets what it was told to leave once it has been read."""
    with torch.library._scoped_library("conform_table_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        twice = torch.ops.conform_table_test.twice.default

        class Twice(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y: torch.Tensor = twice(torch.nn.functional.silu(x))
                return y

        program = export(Twice(), (torch.randn(3),)).run_decompositions({})
        kept, gone = default_decompositions(), default_decompositions()
        kept.pop(twice)
        assert twice not in kept
        assert twice in gone
        for table, is_there in ((kept, True), (gone, False)):
            made = program.run_decompositions(table)
            assert (twice in {node.target for node in made.graph.nodes}) is is_there


def _exported(case: Case, shared: SharedCaseWork, seed: int = 0) -> ExportedProgram:
    return Tester(case, "portable:fp32", seed=seed, shared_work=shared).export().exported


def test_cells_of_a_case_share_the_exported_program() -> None:
    shared = SharedCaseWork()
    first = _exported(NET, shared)
    assert _exported(NET, shared) is first
    assert _exported(NET, shared, seed=1) is not first, "other weights"
    assert _exported(NET, shared) is first
    next(iter(first.state_dict.values())).data.add_(1)  # a user's pass writes to a weight
    assert _exported(NET, shared) is not first


@pytest.mark.parametrize(
    "case",
    [
        Case("test/counted", lambda: (Counted(), (torch.randn(3),))),
        Case("test/dynamic", lambda: (torch.nn.ReLU(), (torch.randn(3, 2),)),
             dynamic_shapes=({0: Dim("rows", min=2, max=9)},)),
    ],
    ids=lambda case: case.name,
)  # fmt: skip
def test_programs_with_state_or_symbols_are_not_shared(case: Case) -> None:
    shared = SharedCaseWork()
    assert _exported(case, shared) is not _exported(case, shared)
