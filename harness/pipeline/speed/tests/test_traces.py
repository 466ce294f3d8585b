"""A trace finds the same nodes and says the same of them, whether modules' class is written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export
from torch.fx import _symbolic_trace, proxy
from torch.fx.experimental.proxy_tensor import _ModuleStackTracer, make_fx
from torch.utils._traceback import CapturedTraceback

from harness.pipeline.speed.export import traces

_ORIGINALS = {name: vars(torch.nn.Module)[name] for name in ("__getattr__", "__call__")}


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


class _Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _Block(), _Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class _Shared(_Plain):
    def __init__(self) -> None:
        super().__init__()
        self.second.linear = self.first.linear


class _Choosing(_Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.first(x), lambda x: self.second(x), (x,))


class _Doubling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The methods of ``Module`` that traces put in the place of torch's."""
    seen: list[str] = []

    def patch(patcher: Any, cls: type, name: str, *given: Any, **options: Any) -> None:
        seen.append(name)
        upstream(patcher, cls, name, *given, **options)

    upstream = traces._patch
    monkeypatch.setattr(traces, "_patch", patch)
    monkeypatch.setattr(_symbolic_trace._Patcher, "patch_method", traces._patch_where_needed)
    monkeypatch.setattr(proxy, "CapturedTraceback", traces._Stack)
    yield seen
    assert {name: vars(torch.nn.Module)[name] for name in _ORIGINALS} == _ORIGINALS


def _upstreams(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> Any:
    with monkeypatch.context() as patched:
        patched.setattr(_symbolic_trace._Patcher, "patch_method", traces._patch)
        patched.setattr(proxy, "CapturedTraceback", CapturedTraceback)
        return make()


def _said(graph: torch.fx.GraphModule) -> list[Any]:
    """Every node with what a trace says of where it comes from."""
    return [
        (
            node.format_node(),
            *(node.meta.get(what) for what in ("nn_module_stack", "torch_fn")),
            # A number counts the graphs that the process has compiled.
            re.sub(r"(eval_with_key>).\d+", r"\1", node.meta.get("stack_trace", "")),
        )
        for each in graph.modules()
        if isinstance(each, torch.fx.GraphModule)
        for node in each.graph.nodes
    ]


def _exported(module: torch.nn.Module) -> ExportedProgram:
    torch.manual_seed(0)
    return export(module, (torch.ones(2, 3),), strict=False)


@pytest.mark.parametrize(
    ("make", "methods"),
    [
        (_Plain, {"__call__"}),
        (_Shared, {"__getattr__", "__call__"}),
        (_Choosing, {"__call__"}),
    ],
)
def test_an_export_writes_what_it_needs_and_says_the_same(
    make: type[torch.nn.Module],
    methods: set[str],
    written: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = make()
    ours = _said(_exported(module).graph_module)
    assert set(written) == methods
    upstreams = _said(_upstreams(monkeypatch, lambda: _exported(module)).graph_module)
    assert ours == upstreams
    assert any(stack for _, stack, _, _ in ours)
    assert any(f"{__file__}" in trace for *_, trace in ours)


def test_a_program_is_decomposed_as_before(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _exported(_Plain())
    written.clear()
    ours = program.run_decompositions()
    assert "__getattr__" not in written
    upstreams = _upstreams(monkeypatch, program.run_decompositions)
    assert _said(ours.graph_module) == _said(upstreams.graph_module) != []


def test_nothing_is_written_to_trace_graphs() -> None:
    inner, outer = torch.fx.symbolic_trace(_Plain()), torch.fx.Graph()
    outer.output(outer.call_module("inner", (outer.placeholder("x"),)))
    graph = torch.fx.GraphModule({"inner": torch.fx.symbolic_trace(_Doubling())}, outer)
    for scope, needed in ((graph, False), (inner, True)):  # the latter has layers
        assert traces._is_needed(_ModuleStackTracer(scope), "__call__") is needed
        assert not traces._is_needed(_ModuleStackTracer(scope), "__getattr__")


def test_a_trace_below_one_that_wrote_writes(
    written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _Plain()
    make_fx(module)(torch.ones(2, 3))
    assert not written
    with monkeypatch.context() as patched:
        patched.setattr(torch.nn.Module, "__call__", lambda *given: _ORIGINALS["__call__"](*given))
        make_fx(module)(torch.ones(2, 3))
    assert written == ["__call__"]


@pytest.mark.parametrize("forward_only", [True, False])
def test_a_tracer_keeps_the_same_frames(forward_only: bool) -> None:
    tracer = _symbolic_trace.Tracer()
    tracer._record_forward_stack_traces_only = forward_only

    def forward() -> list[str]:
        found = [each.extract().summary() for each in (CapturedTraceback, traces._Stack)]
        kept = ["".join(tracer._filter_traceback_frames(each).format()) for each in found]
        assert len(found[1]) < len(found[0])
        return kept

    between = torch.fx.Interpreter(torch.fx.symbolic_trace(_Doubling()))  # frames of no interest
    upstreams, ours = between.call_function(forward, (), {})
    assert ours == upstreams
    assert "forward" in ours
