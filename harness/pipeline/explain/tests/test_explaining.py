"""The line of the model is found in tracebacks, messages and stacks."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType

import pytest
import torch
from executorch.exir.backend import utils

from harness.backend_api import Precision, Recipe
from harness.pipeline.explain import rejections
from harness.pipeline.explain.model_frames import find_frame_in_text, find_model_frame

MODEL = """\
import torch

def layer(x):
    return torch.ones(2) @ x

def model(x):
    return layer(x)

def wraps(x):
    try:
        layer(x)
    except RuntimeError as error:
        raise ValueError("wrapped") from error
"""
LINE = "model.py:4: return torch.ones(2) @ x"


@pytest.fixture
def model(tmp_path: Path) -> ModuleType:
    (tmp_path / "model.py").write_text(MODEL)
    spec = importlib.util.spec_from_file_location("model", tmp_path / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["model", "wraps"])
def test_the_innermost_line_of_the_model_is_named(model: ModuleType, name: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        getattr(model, name)(torch.ones(3))
    frame = find_model_frame(caught.value)
    assert frame is not None
    assert frame.endswith(LINE)


def test_frames_that_torch_writes_or_keeps_count(model: ModuleType) -> None:
    written = (
        f'While executing %mm\nOriginal traceback:\n  File "{model.__file__}", line 4, in layer'
    )
    frame = find_model_frame(RuntimeError(written))
    assert frame is not None
    assert frame.endswith(LINE)
    kept = RuntimeError("from dynamo")
    kept.real_stack = traceback.StackSummary.from_list(  # type: ignore[attr-defined]
        [(str(model.__file__), 4, "layer", ""), (torch.__file__, 1, "inner", "")]
    )
    assert find_model_frame(kept) == frame


def test_lines_of_tools_are_no_lines_of_the_model(model: ModuleType) -> None:
    assert find_model_frame(RuntimeError("nothing was called")) is None
    with pytest.raises(RuntimeError) as caught:
        torch.ones(2) @ torch.ones(3)
    error = caught.value.with_traceback(None)
    assert find_model_frame(error) is None
    assert find_frame_in_text(f'File "{torch.__file__}", line 1, in x', innermost_last=True) is None
    assert find_frame_in_text('File "<eval_with_key>.1", line 1, in x', innermost_last=True) is None


def test_faulthandler_writes_the_innermost_frame_first(model: ModuleType) -> None:
    stack = (
        "Current thread 0x1 (most recent call first):\n"
        f'  File "{torch.__file__}", line 1 in call\n'
        f'  File "{model.__file__}", line 4 in layer\n'
        f'  File "{model.__file__}", line 7 in model\n'
    )
    frame = find_frame_in_text(stack, innermost_last=False)
    assert frame is not None
    assert frame.endswith(LINE)


def test_cyclic_causes_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert find_model_frame(first) is None


def test_log_messages_of_partitioners_are_captured_only_while_lowering() -> None:
    graph = torch.fx.Graph()
    refused, ignored, kept = (
        graph.call_function(torch.add, name=name) for name in ("refused", "ignored", "kept")
    )
    recipe = Recipe(
        "r", Precision(), explain=lambda partitioners, node: f"{len(partitioners)} {node.name}"
        if node is kept else None,
    )  # fmt: skip
    said, reported = utils.WhyNoPartition.__call__, utils.WhyNoPartitionReporter.report_reject
    with rejections.record_rejections(recipe, [object(), object()]) as why:
        utils.WhyNoPartition(_Silent())(refused, "too\nwide")
        utils.WhyNoPartition(_Silent())(refused, "less specific")
    assert why(refused) == "too wide"
    assert why(ignored) is None
    assert why(kept) == "2 kept"
    assert utils.WhyNoPartition.__call__ is said
    assert utils.WhyNoPartitionReporter.report_reject is reported


class _Silent:
    def debug(self, message: object) -> None:
        pass
