"""Metrics: the built-in ones, those of a case with limits, and those of the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Case, CaseError, Cell, UsageError, check, run_cell
from harness.checking.metric_specs import parse_metric
from harness.model.metric import Metric, Outputs
from harness.numerics.metrics.task import BY_NAME
from harness.record.cell import Status


def of(name: str, actual: Any, expected: Any) -> float:
    return Metric(BY_NAME[name]).compute([[torch.tensor(actual)]], [[torch.tensor(expected)]], [[]])


LOGITS = [[0.1, 0.9, 0.0], [0.7, 0.2, 0.1]]


@pytest.mark.parametrize(
    ("name", "actual", "expected", "figure"),
    [
        ("top1", LOGITS, LOGITS, 1.0),
        ("top1", [[0.9, 0.1, 0.0], [0.7, 0.2, 0.1]], LOGITS, 0.5),
        ("top5", [[6.0, 5, 4, 3, 2, 1]], [[1.0, 2, 3, 4, 5, 6]], 0.8),
        ("cosine", [[1.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [1.0, 1.0]], 1 / math.sqrt(2)),
        ("rank", [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [[1.0, 0.0], [0.8, 0.2], [0.1, 1.0]], 1.0),
        ("edit_distance", [[[0.9, 0], [0, 0.9], [0.9, 0]]], [[[0.9, 0], [0.9, 0], [0, 0.9]]], 0.5),
        ("iou", [[0.0, 0, 2, 2]], [[1.0, 0, 3, 2]], 1 / 3),
        ("cents", [[442.0]], [[440.0]], 1200 * math.log2(442 / 440)),
    ],
)
def test_a_built_in_metric(name: str, actual: Any, expected: Any, figure: float) -> None:
    assert of(name, actual, expected) == pytest.approx(figure, abs=1e-6)


def test_perplexity_is_that_of_the_tokens_of_the_inputs() -> None:
    metric = Metric(BY_NAME["perplexity"])
    # The second token has a probability of 1/4, the third of 1/2.
    logits = torch.tensor([[[0.0, 0, 0, 0], [math.log(3), 0, 0, 0], [9, 0, 0, 0]]])
    tokens = torch.tensor([[3, 1, 0]])
    found = metric.compute([[logits]], [[logits]], [[torch.zeros(2), tokens]])
    assert found == pytest.approx(math.sqrt(8))
    with pytest.raises(ValueError, match="perplexity needs tokens"):
        metric.compute([[logits]], [[logits]], [[torch.zeros(1, 3)]])


def test_a_function_with_a_third_parameter_gets_the_inputs() -> None:
    def largest(actual: Outputs, expected: Outputs, inputs: Outputs) -> float:
        return float(inputs[0][0].numel())

    (value,) = run("xnnpack:fp32", largest).metrics
    assert value.value == 16 * 8


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x)
        return result


def run(target: str, metric: Any) -> Cell:
    case = Case("classifier", lambda: (Classifier(), (torch.randn(16, 8),)), metric=metric)
    return run_cell(case, target)


def test_a_metric_has_a_figure_for_model_graph_and_target() -> None:
    (value,) = run("xnnpack:int8", BY_NAME["top1"]).metrics
    assert value.name == "top1"
    assert value.model == 1.0
    assert value.quantized is not None
    assert 0.5 < value.value <= 1.0
    (value,) = run("xnnpack:fp32", Metric(BY_NAME["cosine"], at_least=0.999)).metrics
    assert value.quantized is None
    assert value.holds


def test_a_target_beyond_a_limit_is_red() -> None:
    cell = run("tosa:int", [BY_NAME["top1"], Metric(BY_NAME["cosine"], at_least=0.9999999)])
    assert (cell.status, cell.stage) == (Status.FAILED, "metric")
    assert "cosine is 0.99" in (cell.error or "")
    assert "at least 1 is required" in (cell.error or "")
    assert [one.holds for one in cell.metrics] == [True, False]
    assert Cell.from_json(cell.to_json()).metrics == cell.metrics


def test_a_target_beyond_a_limit_of_degradation_is_a_degraded_pass() -> None:
    cell = run("tosa:int", Metric(BY_NAME["cosine"], degraded_below=0.9999999))
    assert cell.status is Status.PASSED
    assert cell.is_degraded
    assert str(cell.metrics[0]).endswith("; degraded below 1")
    assert Cell.from_json(cell.to_json()).is_degraded
    assert not run("tosa:int", Metric(BY_NAME["cosine"], degraded_above=1.0)).is_degraded
    both = Metric(BY_NAME["cosine"], degraded_below=0.5, degraded_above=0.75)
    assert str(run("tosa:int", both).metrics[0]).endswith("; degraded above 0.75")


def test_a_limit_that_is_nan_is_refused() -> None:
    with pytest.raises(CaseError, match="degraded_above of a metric is NaN"):
        Metric(BY_NAME["cosine"], degraded_above=math.nan)


def test_nan_is_within_no_limit() -> None:
    def broken(actual: Outputs, expected: Outputs) -> float:
        return math.nan

    assert run("xnnpack:fp32", broken).status is Status.PASSED
    cell = run("xnnpack:fp32", Metric(broken, at_most=1.0))
    assert (cell.status, cell.stage) == (Status.FAILED, "metric")
    assert math.isnan(Cell.from_json(cell.to_json()).metrics[0].value)


def test_a_metric_that_raises_is_red_with_its_error() -> None:
    def raises(actual: Outputs, expected: Outputs) -> float:
        raise ZeroDivisionError("no words")

    cell = run("xnnpack:fp32", raises)
    assert (cell.status, cell.stage) == (Status.FAILED, "metric")
    assert "no words" in (cell.error or "")


def test_a_metric_that_is_no_function_is_refused() -> None:
    with pytest.raises(CaseError, match="a metric is a function"):
        Metric(3)  # type: ignore[arg-type]


def test_check_takes_a_metric() -> None:
    (cell,) = check(Classifier(), (torch.randn(16, 8),), "xnnpack:int8", metric=BY_NAME["cosine"])
    assert cell.metrics[0].value > 0.99


def test_a_metric_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def score(actual, expected):\n    return 0.5\n")
    monkeypatch.chdir(tmp_path)
    metric = parse_metric("mine.py:score>=0.25")
    assert (metric.name, metric.at_least, metric.at_most) == ("score", 0.25, None)
    assert metric.function([], []) == 0.5
    assert parse_metric("cents<= 50").at_most == 50


def test_a_spec_may_name_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import harness\nlisten = harness.Metric(lambda a, e: 0.5, 'heard', degraded_below=0.75)\n"
    )
    monkeypatch.chdir(tmp_path)
    metric = parse_metric("mine.py:listen")
    assert (metric.name, metric.degraded_below, metric.at_least) == ("heard", 0.75, None)
    assert parse_metric("mine.py:listen>=0.25").at_least == 0.25


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("top2", "there is no metric 'top2'; give one of top1"),
        ("top1>0.5", "write NAME"),
        ("top1>=e", "is no number"),
        ("math:pi", "is of type float, not a function"),
    ],
)
def test_a_wrong_metric_is_explained(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_metric(spec)
