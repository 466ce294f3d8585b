"""Graphs that were verified and not touched since, not verified again.

Each pass of exir verifies the program before and after, and hardly any changes it: XNNPACK verifies
a delegate's graph 35 times, LSTM's programs have two dozen delegates. A verifier looks at each
operator, its dialect, its tags, and calls all of them to look at dtypes. Half of these calls are of
graphs like one that was found valid: what targets share is copied, delegates are cut out alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.program import _program
from executorch.exir.verification import verifier
from torch._export.verifier import Verifier
from torch.fx import GraphModule

from harness.pipeline.speed.faked import NotKept, calls_of
from harness.pipeline.unchanged import Nodes

_MARK = "_conform_verified"
_upstream = Verifier._check_graph_module
_check_upstream = ExportedProgramPassManager.check


class _Verified:
    """A graph as verifiers found it valid."""

    def __init__(self, module: GraphModule) -> None:
        self.by: set[type[Verifier]] = set()
        self._nodes = Nodes(module.graph)
        self._others = list(_others(module))
        self._alive = list(module.children())  # an attribute is known by its address

    def holds(self, module: GraphModule) -> bool:
        """Whether nothing of the graph is another."""
        return self._nodes.are_of(module.graph) and self._others == list(_others(module))


def _others(module: GraphModule) -> Iterator[tuple[str, int]]:
    """What a verifier looks at beside what nodes call and hold: names, and what is an attribute."""
    for node in module.graph.nodes:
        attribute = getattr(module, node.target, None) if node.op == "get_attr" else None
        yield node.name, id(attribute)


def _known(module: GraphModule) -> _Verified | None:
    known: _Verified | None = vars(module.graph).get(_MARK)
    return known if known is not None and known.holds(module) else None


def _check_graph_module(verifier: Verifier, module: GraphModule) -> None:
    """Stands for ``Verifier._check_graph_module``."""
    known = _known(module)
    if known is not None and type(verifier) in known.by:
        return
    _upstream(verifier, module)
    if any(isinstance(child, GraphModule) for child in module.children()):
        return  # a branch may change on its own
    known = known or _Verified(module)
    known.by.add(type(verifier))
    vars(module.graph)[_MARK] = known


def _check(manager: ExportedProgramPassManager, program: Any) -> None:
    """Stands for the pass manager's ``check``, which asks of the graph what the verifier has asked,
    and then verifies the program."""
    if _known(program.graph_module) is not None:
        program.validate()
    else:
        _check_upstream(manager, program)


_call_operators = verifier._check_tensor_args_matching_op_allowed_dtype
_MOST = 50_000  # nodes of graphs that are kept
_valid: set[tuple[Any, ...]] = set()


def _call_operators_once(module: GraphModule) -> None:
    """Stands for ``_check_tensor_args_matching_op_allowed_dtype``, which calls all operators of a
    graph and asks of each whether it takes these dtypes."""
    try:
        calls = calls_of(module.graph)
    except NotKept:
        _call_operators(module)
        return
    if calls not in _valid:
        _call_operators(module)
        if len(calls) + sum(map(len, _valid)) > _MOST:
            _valid.clear()
        _valid.add(calls)


_is_kept = _program._remove_invalid_ops_for_not_decompose
_kept: dict[tuple[Any, ...], list[Any]] = {}


def _remove_invalid_once(preserved: list[Any]) -> list[Any]:
    """Stands for exir's look at what a partitioner keeps: it parses each operator's schema, twice a
    program."""
    key = tuple(preserved)
    if key not in _kept:
        _kept[key] = _is_kept(preserved)
    return list(_kept[key])


def install() -> None:
    """Verify a graph once from now on."""
    verifiers: Any = Verifier
    verifiers._check_graph_module = _check_graph_module
    ExportedProgramPassManager.check = _check
    verifier._check_tensor_args_matching_op_allowed_dtype = _call_operators_once
    _program._remove_invalid_ops_for_not_decompose = _remove_invalid_once
