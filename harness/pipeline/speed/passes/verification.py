"""Avoid verifying graphs and operator calls that were verified before.

Each pass of exir verifies the program before and after, and almost no pass changes it: XNNPACK
verifies a delegate's graph 35 times, and an LSTM has two dozen delegates. A verifier checks each
operator's dialect and tags, and calls it to check dtypes. Most of these calls were made before with
tensors of the same kinds.

Assumes that verifiers read only the graph's nodes, names and attributes, the program's signature,
and the dtypes of calls. Verified by comparing these before each reuse (``GraphNodes``), and by
digests of the verifiers (``originals``).
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
    """The state of a graph when verifiers accepted it."""

    def __init__(self, module: GraphModule) -> None:
        self.by: set[type[Verifier]] = set()
        self._nodes = GraphNodes(module.graph)
        self._others = list(_others(module))
        self._alive = list(module.children())  # attributes are compared by address

    def holds(self, module: GraphModule) -> bool:
        """Return whether the graph is unchanged."""
        return self._nodes.match(module.graph) and self._others == list(_others(module))


def _others(module: GraphModule) -> Iterator[tuple[str, int]]:
    """Yield further facts that a verifier reads: names of nodes, and identities of attributes."""
    for node in module.graph.nodes:
        attribute = getattr(module, node.target, None) if node.op == "get_attr" else None
        yield node.name, id(attribute)


def _known(module: GraphModule) -> _Verified | None:
    known: _Verified | None = vars(module.graph).get(_MARK)
    return known if known is not None and known.holds(module) else None


def _check_graph_module(verifier: Verifier, module: GraphModule) -> None:
    """Replaces ``Verifier._check_graph_module``."""
    known = _known(module)
    if known is not None and type(verifier) in known.by:
        return
    _upstream(verifier, module)
    if any(isinstance(child, GraphModule) for child in module.children()):
        return  # a subgraph may change separately
    known = known or _Verified(module)
    known.by.add(type(verifier))
    vars(module.graph)[_MARK] = known


def _check(manager: ExportedProgramPassManager, program: Any) -> None:
    """Replaces the pass manager's ``check``.

    It repeats the verifier's checks of the graph, and then verifies the program.
    """
    known = _known(program.graph_module)
    if known is None:
        _check_upstream(manager, program)
    elif vars(program).get(_CHECKED) != (said := [known, *_list_verified_facts(program)]):
        program.validate()
        vars(program)[_CHECKED] = said


def _list_verified_facts(program: Any) -> list[Any]:
    """List the facts that are verified besides the graph: names and types in the signature, the
    module calls, the state and the constants."""
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
# Kinds of the results of valid calls, by operator, arguments and declared result.
_valid: dict[CallKey, CallKey] = {}


class _Calls:
    """Cache keys of a graph's calls during a walk.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        values = (node.meta.get("val") for node in graph.nodes)
        self._mode: Any = next((one.fake_mode for one in values if type(one) is FakeTensor), None)
        self.given: dict[Node, CallKey] = {}

    def by(self, node: Node) -> CallKey:
        """Return the cache key of a node's call.

        Raises:
            NotCacheable: the call depends on more than a key covers.
            KeyError: an earlier node has no key, or the node declares no value.
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
        """Record the result of a node and return its key; see :meth:`by`."""
        self.given[node] = found = build_key((value,), self._mode)
        return found


class _RecordingArgValidator(EdgeOpArgValidator):  # type: ignore[misc, unused-ignore]
    """Validator that records valid calls."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self._calls = _Calls(module.graph)
        self._found: dict[CallKey, CallKey] = {}

    def run_node(self, n: Node) -> Any:
        """Call an operator and record its key."""
        result: Any = super().run_node(n)
        with suppress(NotCacheable, KeyError):
            kind = self._calls.give(n, result)
            if n.op == "call_function":
                self._found[self._calls.by(n)] = kind
        return result

    def run(self, *args: Any, **options: Any) -> Any:
        """Call all operators up to the first delegate, which raises, and cache the valid calls."""
        try:
            return super().run(*args, **options)
        finally:
            if not self.violating_ops:
                if len(_valid) + len(self._found) > _MOST:
                    _valid.clear()
                _valid.update(self._found)


def _are_valid(module: GraphModule) -> bool:
    """Return whether all calls up to the first delegate, where upstream stops, are known."""
    calls = _Calls(module.graph)
    try:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                calls.give(node, node.meta.get("val"))
            elif node.op == "call_function":
                if isinstance(node.target, HigherOrderOperator):
                    return True
                calls.given[node] = _valid[calls.by(node)]
            # An attribute has no key: only delegates have one as an argument.
            elif node.op == "get_attr":
                getattr(module, node.target)
            elif node.op != "output":
                return False
    except (NotCacheable, KeyError, AttributeError):
        return False
    return True


def _call_operators_once(module: GraphModule) -> None:
    """Replaces ``_check_tensor_args_matching_op_allowed_dtype``.

    It calls all operators of a graph and checks their dtypes.
    """
    if not _are_valid(module):
        _call_operators(module)


_is_kept = _program._remove_invalid_ops_for_not_decompose
_cache: dict[tuple[Any, ...], list[Any]] = {}


def _remove_invalid_once(preserved: list[Any]) -> list[Any]:
    """Replaces exir's check of a partitioner's preserved operators, which parses each operator's
    schema twice a program."""
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
