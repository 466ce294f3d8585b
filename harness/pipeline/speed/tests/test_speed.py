"""Keeping torch's results, and putting off what nobody asks for, changes no program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from executorch.exir import pass_base
from torch._export import utils as export_utils
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from harness.model import registry
from harness.pipeline import speed
from harness.pipeline.speed.export import decomposition_tables
from harness.pipeline.speed.passes import argument_trees
from harness.record.target import Target

ROOT = Path(__file__).parents[4]

CODE = """
import sys
import torch
from harness import Case, registry
from harness.pipeline.speed.tests.comparing.programs import find_cells, load_cases, print_programs

mode, what = sys.argv[1:]

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.LayerNorm(6)
    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(self.conv(x))).softmax(-1)

class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(2, 3))
    def forward(self, x):
        self.state.add_(torch.nn.functional.elu_(x))
        return self.state * 2

def small():
    case = Case("net/small", lambda: (Net(), (torch.randn(1, 3, 8, 8),)))
    writes = Case("net/writes", lambda: (Writes(), (torch.randn(2, 3),)))
    targets = ("portable:fp32", "xnnpack:fp32", "tosa:fp", "tosa:int", "mlx:fp32", "metal:fp32")
    native = [(writes, target) for target in targets[:2]]
    return ([(case, target) for target in targets] + native) * (2 if mode == "with" else 1)

def sample():
    # Of each target a layer that all of them take, and a few cases spread over the suites; models
    # are left out for their time, but for one that Arm's passes walk over and over. Then cases on
    # all their default targets, one after the other, as a run takes them.
    cases = load_cases()
    layer = [case for case in cases if case.name == "linear/bias"]
    for target in registry.known_targets():
        of_it = [case for case in cases if target in registry.select_targets(case, [target])]
        spread = of_it[:: max(1, len(of_it) // 3)][:3]
        yield from ((case, str(target)) for case in layer + spread)
    yield from ((case, "tosa:int") for case in cases if case.name == "int_model/attention")
    yield from find_cells(cases[::32])

print_programs({"small": small, "sample": sample}[what](), mode)
"""


def programs(mode: str, what: str, **environment: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, mode, what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        # col2im on TOSA goes by the order of a set.
        env=os.environ | {"PYTHONHASHSEED": "0"} | environment,
    )
    return [line for line in result.stdout.splitlines() if line.startswith("PROGRAM")]


@pytest.mark.nightly
def test_programs_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    made = programs("with", "small", XDG_CACHE_HOME=str(tmp_path))
    assert len(made) == 16
    assert all(" lowered " in line for line in made), made
    assert made[:8] == made[8:], "the second lowering uses what the first one kept"
    assert made[:8] == programs("without", "small")
    (generated,) = (tmp_path / "executorch-conform" / "metal-generated").iterdir()
    assert len(list(generated.iterdir())) == 1


@pytest.mark.nightly
def test_programs_of_every_target_are_the_same_byte_for_byte() -> None:
    made = programs("with", "sample")
    lowered = {line.split()[1] for line in made if " lowered " in line}
    # An error that both give would compare equal, too.
    assert lowered >= {str(target) for target in registry.known_targets() if can_lower(target)}
    assert made == programs("without", "sample")


def can_lower(target: Target) -> bool:
    state = registry.backend(target.backend).availability()
    return state.available or state.can_lower


def test_decompositions_are_looked_up_once_and_handed_out_as_copies() -> None:
    speed.install()
    wanted = [torch.ops.aten.gelu, torch.ops.aten.silu.default, torch.ops.aten.add.Tensor]
    first = torch._decomp.get_decompositions(wanted)
    assert first == decomposition_tables._get_decompositions(wanted)
    first.clear()
    assert torch._decomp.get_decompositions(wanted) == decomposition_tables._get_decompositions(
        wanted
    )


def test_composite_operators_are_collected_again_when_one_is_registered() -> None:
    speed.install()
    collect = export_utils._collect_all_valid_cia_ops
    before = set(collect())
    assert set(collect()) == before
    with torch.library._scoped_library("conform_speed_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        found = set(collect())
        assert found == set(collect._collect())  # type: ignore[attr-defined]
        assert found - before == {torch.ops.conform_speed_test.twice.default}


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    "tree",
    [
        1,
        (1, [2, 3.0, (True, None)], {"b": torch.int8, "a": [4]}),
        immutable_list([1, immutable_dict({"a": (2,)})]),
        (Pair(1, [2]), slice(1, 2), OrderedDict(b=1, a=(2,))),
        torch.Size([1, 2]),
        torch.return_types.max((1, 2)),
    ],
    ids=str,
)
def test_arguments_are_walked_as_upstream_does(tree: Any) -> None:
    def name(leaf: Any) -> str:
        return f"{type(leaf).__name__} {leaf}"

    def types(walked: Any) -> Any:
        items = walked if isinstance(walked, list | tuple) else ()
        return type(walked), [types(item) for item in items]

    for mine, upstream in (
        (argument_trees._tree_map(name, tree), pytree.tree_map(name, tree)),
        (argument_trees._tree_map_only(int, name, tree), pytree.tree_map_only(int, name, tree)),
    ):
        assert mine == upstream
        assert types(mine) == types(upstream)
    assert list(argument_trees._tree_iter(tree)) == list(pytree.tree_iter(tree))


def test_a_pass_still_says_which_node_it_is_at() -> None:
    speed.install()

    class Noting(pass_base.ExportPass):
        def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
            told.append(self.node_debug_str)
            return super().call_operator(op, args, kwargs, meta)

    told: list[str | None] = []
    noting = Noting()
    assert noting.node_debug_str is None
    graph = torch.export.export(torch.nn.ReLU(), (torch.randn(2),)).graph_module
    noting(graph)
    assert told == [node.format_node() for node in graph.graph.nodes if node.op == "call_function"]
