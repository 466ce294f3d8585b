"""Graphs that were verified and not touched since, not verified again.

Each pass of exir verifies the program before and after, and hardly any changes it: XNNPACK verifies
a delegate's graph 35 times, LSTM's programs have two dozen delegates. A verifier looks at each
operator, its dialect, its tags, and calls all of them to look at dtypes. Most of these calls were
made before with tensors of the same kinds: targets share programs, delegates are cut out alike.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.program import _program
from executorch.exir.verification import verifier
from executorch.exir.verification.arg_validator import EdgeOpArgValidator
from torch._export.verifier import Verifier
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node

from harness.pipeline.reference.unchanged import GraphNodes
from harness.pipeline.speed.passes.fake_keys import (
    CallKey,
    NotCacheable,
    build_key,
    get_operator_context,
)
from harness.vendors.replacements import AttributeReplacer

_MARK, _CHECKED = "_conform_verified", "_conform_checked"
_upstream = Verifier._check_graph_module
_check_upstream = ExportedProgramPassManager.check


class _Verified:
    """A graph as verifiers found it valid."""

    def __init__(self, module: GraphModule) -> None:
        self.by: set[type[Verifier]] = set()
        self._nodes = GraphNodes(module.graph)
        self._others = list(_others(module))
        self._alive = list(module.children())  # an attribute is known by its address

    def holds(self, module: GraphModule) -> bool:
        """Whether nothing of the graph is another."""
        return self._nodes.match(module.graph) and self._others == list(_others(module))


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
    known = _known(program.graph_module)
    if known is None:
        _check_upstream(manager, program)
    elif vars(program).get(_CHECKED) != (said := [known, *_list_verified_facts(program)]):
        program.validate()
        vars(program)[_CHECKED] = said


def _list_verified_facts(program: Any) -> list[Any]:
    """What is verified of a program beside its graph: names that are to be of its nodes and of its
    values, and what these are."""
    signature, calls = program.graph_signature, program.module_call_graph
    specs = (*signature.input_specs, *signature.output_specs)
    given = [
        one for call in calls if (its := call.signature) for one in (*its.inputs, *its.outputs)
    ]
    return [
        *program.verifiers,
        *((one.kind, type(one.arg), _name(one.arg), one.target) for one in specs),
        *(getattr(one, "persistent", None) for one in specs),
        *map(_name, given),
        *((name, type(value)) for name, value in program.state_dict.items()),
        *program.constants,
    ]


def _name(argument: Any) -> str | None:
    return getattr(argument, "name", None)


_call_operators = verifier._check_tensor_args_matching_op_allowed_dtype
_MOST = 50_000
# What valid calls of operators give: by operator, its arguments and the result that a graph says it
# has, kinds for tensors, the kind of the one that it has.
_valid: dict[CallKey, CallKey] = {}


class _Calls:
    """The calls of a graph as they are told apart, while it is walked.

    Args:
        graph: whose.
    """

    def __init__(self, graph: Graph) -> None:
        values = (node.meta.get("val") for node in graph.nodes)
        self._mode: Any = next((one.fake_mode for one in values if type(one) is FakeTensor), None)
        self.given: dict[Node, CallKey] = {}

    def by(self, node: Node) -> CallKey:
        """What tells the call of a node from others.

        Raises:
            NotCacheable: more decides about it.
            KeyError: a node before it has not been given its kind, or it says nothing.
        """
        its = node.target
        if not isinstance(its, EdgeOpOverload) and its is not operator.getitem:
            raise NotCacheable
        context = get_operator_context(its._op) if isinstance(its, EdgeOpOverload) else None
        given = (
            build_key(each, self._mode, self.given) for each in (node.args, node.kwargs.items())
        )
        return its, context, *given, build_key((node.meta["val"],), self._mode)

    def give(self, node: Node, value: Any) -> CallKey:
        """Say what came of a node; see :meth:`by`."""
        self.given[node] = found = build_key((value,), self._mode)
        return found


class _RecordingArgValidator(EdgeOpArgValidator):  # type: ignore[misc, unused-ignore]
    """Notes the calls that it finds valid."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._calls = _Calls(module.graph)
        self._found: dict[CallKey, CallKey] = {}

    def run_node(self, n: Node) -> Any:
        """Call an operator."""
        result: Any = super().run_node(n)
        with suppress(NotCacheable, KeyError):
            kind = self._calls.give(n, result)
            if n.op == "call_function":
                self._found[self._calls.by(n)] = kind
        return result

    def run(self, *args: Any, **options: Any) -> Any:
        """Call all operators up to the first delegate, which raises."""
        try:
            return super().run(*args, **options)
        finally:
            if not self.violating_ops:
                if len(_valid) + len(self._found) > _MOST:
                    _valid.clear()
                _valid.update(self._found)


def _are_valid(module: GraphModule) -> bool:
    """Whether all calls of a graph up to its first delegate, where upstream leaves it, were found
    valid, with what comes of those before them."""
    calls = _Calls(module.graph)
    try:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                calls.give(node, node.meta.get("val"))
            elif node.op == "call_function":
                if isinstance(node.target, HigherOrderOperator):
                    return True
                calls.given[node] = _valid[calls.by(node)]
            # Nothing is given of an attribute: delegates alone are called with one.
            elif node.op == "get_attr":
                getattr(module, node.target)
            elif node.op != "output":
                return False
    except (NotCacheable, KeyError, AttributeError):
        return False
    return True


def _call_operators_once(module: GraphModule) -> None:
    """Stands for ``_check_tensor_args_matching_op_allowed_dtype``, which calls all operators of a
    graph and asks of each whether it takes these dtypes."""
    if not _are_valid(module):
        _call_operators(module)


_is_kept = _program._remove_invalid_ops_for_not_decompose
_cache: dict[tuple[Any, ...], list[Any]] = {}


def _remove_invalid_once(preserved: list[Any]) -> list[Any]:
    """Stands for exir's look at what a partitioner keeps: it parses each operator's schema, twice a
    program."""
    key = tuple(preserved)
    if key not in _cache:
        _cache[key] = _is_kept(preserved)
    return list(_cache[key])


def install(replace: AttributeReplacer) -> None:
    """Verify a graph once from now on."""
    replace(Verifier, "_check_graph_module", _check_graph_module)
    replace(ExportedProgramPassManager, "check", _check)
    checked = "_check_tensor_args_matching_op_allowed_dtype"
    replace(verifier, checked, _call_operators_once)
    replace(verifier, "EdgeOpArgValidator", _RecordingArgValidator)
    replace(_program, "_remove_invalid_ops_for_not_decompose", _remove_invalid_once)
