"""What is left out is what nobody looks at: answers are upstream's."""

from __future__ import annotations

import inspect
import itertools
import logging
import traceback
import unittest
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import tensor as exir_tensor, to_edge_transform_and_lower
from executorch.exir.backend import utils
from torch.export import ExportedProgram, export

from harness.pipeline import speed
from harness.pipeline.speed import eviction, memoized, unread_text


@pytest.fixture(autouse=True)
def _installed() -> None:
    speed.install()


def _check_if_called_from_to_backend() -> tuple[list[inspect.FrameInfo], list[inspect.FrameInfo]]:
    """Has the name of a partitioner's function that looks for its callers."""
    return inspect.stack(), unread_text._stack()


def test_a_partitioner_finds_the_callers_that_it_would_find() -> None:
    ours, upstreams = _check_if_called_from_to_backend()
    assert len(ours) == len(upstreams)
    # Both were asked in one line, in frames that are still there.
    for mine, full in zip(ours, upstreams, strict=True):
        assert (mine.frame, mine.function, mine.lineno) == (
            full.frame,
            full.function,
            full.lineno,
        )
        assert mine.filename.endswith(full.filename.rpartition("/")[2])
    assert ours[0].function == "_check_if_called_from_to_backend"
    assert ours[1].function == "test_a_partitioner_finds_the_callers_that_it_would_find"


def test_torchs_samples_find_the_test_that_makes_them() -> None:
    from torch.testing._internal.common_utils import extract_test_fn

    class Makes(unittest.TestCase):
        def test_it(self) -> None:
            self.found = extract_test_fn()

    test = Makes("test_it")
    test.debug()
    assert test.found is Makes.test_it
    assert extract_test_fn() is None


def test_others_get_frames_with_their_sources() -> None:
    here = inspect.stack()[0]
    assert here.code_context is not None
    assert "inspect.stack()" in here.code_context[0]
    assert here.function == "test_others_get_frames_with_their_sources"


class _Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def test_the_order_of_dims_is_upstreams() -> None:
    for rank in range(5):
        # Ties, as dimensions of size 1 make them, included.
        for stride in itertools.product((1, 2, 3, 6), repeat=rank):
            assert exir_tensor.dim_order_from_stride(stride) == memoized._order_of(stride)
            assert exir_tensor.dim_order_from_stride(list(stride)) == memoized._order_of(
                list(stride)
            )


def test_strides_of_zero_are_refused_as_before() -> None:
    with pytest.raises(RuntimeError, match="0 in strides"):
        exir_tensor.dim_order_from_stride([2, 0])


def _program() -> ExportedProgram:
    return export(_Twice(), (torch.ones(2),))


def test_a_call_spec_is_upstreams_and_cannot_be_set() -> None:
    program = _program()
    assert program.call_spec == memoized._upstream_call_spec(program)
    with pytest.raises(RuntimeError, match="Unable to set"):
        program.call_spec = None
    program._module_call_graph = []
    assert program.call_spec == (None, None)


def test_what_was_compared_is_forgotten_and_told_apart() -> None:
    program, other = _program().graph_module, export(torch.nn.ReLU(), (torch.ones(2),))
    assert utils.is_identical_graph(program, program)
    assert not utils.is_identical_graph(program, other.graph_module)
    assert utils.is_same_node.cache_info().currsize == 0
    assert eviction._upstream(program, program)
    assert utils.is_same_node.cache_info().currsize > 0, "upstream no longer keeps them"
    utils.is_same_node.cache_clear()


def test_arms_passes_keep_the_line_that_they_would_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import traceback\ndef create_node():\n    return traceback.format_stack()"
    made: dict[str, Any] = {}
    exec(compile(source, "site/executorch/backends/arm/_passes/arm_pass_utils.py", "exec"), made)
    short = made["create_node"]()
    monkeypatch.setattr(traceback, "format_stack", unread_text._format_stack)
    full = made["create_node"]()
    assert len(short) == 2
    assert len(full) > 2
    # The same but for the line in this file.
    assert short[-1] == full[-1]
    assert "in test_arms_passes_keep_the_line_that_they_would_keep" in short[-2]


def test_others_get_the_whole_stack() -> None:
    assert len(traceback.format_stack()) > 2
    assert len(traceback.format_stack(limit=1)) == 1


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_graphs_are_written_where_somebody_reads_them(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, lines = logging.getLogger(), _Lines()
    monkeypatch.setattr(root, "level", level)
    monkeypatch.setattr(root, "handlers", [lines])
    for name in ("convert_to_linear", "convert_to_sdpa"):
        logger = logging.getLogger(f"executorch.backends.xnnpack._passes.{name}")
        monkeypatch.setattr(logger, "level", level)
        logger.manager._clear_cache()  # type: ignore[attr-defined]
    program = export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    written = [line for line in lines.said if "def forward" in line]
    assert len(written) == (5 if level == logging.DEBUG else 0)
    assert "def forward" in str(program.graph_module)
