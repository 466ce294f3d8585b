"""Find the operator and the line of the model for each defect of a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace
from torch.fx import Node

from harness.errors import StageOrderError
from harness.execution.operators import op_name
from harness.pipeline.delegation.count import graph_modules, lowered_modules
from harness.pipeline.explain.node_origin import find_nearest_source
from harness.pipeline.tester import Tester
from harness.record.program_data import Defect


def locate_defects(tester: Tester, defects: Sequence[Defect]) -> list[Defect]:
    """Add the operator and the line of the model to defects.

    Args:
        tester: a tester whose program is lowered.
        defects: defects with the names of nodes in the lowered graph or in a delegate's graph.
    """
    if not defects:
        return []
    nodes = {node.name: node for node in _nodes(tester)}
    return [_locate_defect(defect, nodes.get(defect.node)) for defect in defects]


def _locate_defect(defect: Defect, node: Node | None) -> Defect:
    if node is None:
        return defect
    return replace(defect, op=op_name(node.target), source=find_nearest_source(node))


def _nodes(tester: Tester) -> Iterator[Node]:
    try:
        program = tester.lowered.exported_program()
    except StageOrderError:  # the program is not lowered
        return
    taken = [lowered.original_module for lowered in lowered_modules(program)]
    for each in (program, *taken):
        for module in graph_modules(each.graph_module):
            yield from (node for node in module.graph.nodes if node.op == "call_function")
