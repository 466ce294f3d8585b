"""Predict the outputs of a quantized graph, and compare the graph with the prediction.

The prediction is made from the prepared graph, before PT2E converts it: by rounding each place to
its grid, and by noise of the size of that rounding. Conversion has to arrive at the same outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch.fx import GraphModule

from harness.errors import UnsupportedProgram
from harness.execution.interface import Interface
from harness.model.case import CallInputs, arguments
from harness.model.precision import Precision
from harness.numerics.compare import compare
from harness.numerics.module_runs import CallResult, EagerRuns
from harness.numerics.oracle import Reference, add_run, make_estimator
from harness.numerics.unperturbed import collect_places, collect_values
from harness.pipeline.quantization.attribution import ErrorSearch, find_modules
from harness.pipeline.quantization.conversion import (
    NotComparable,
    Operation,
    find_wrong_conversion,
    list_operations,
)
from harness.pipeline.quantization.quality import (
    QualityOptions,
    compute_sqnr,
    expect_sqnr,
    measure_quality,
)
from harness.pipeline.quantization.quantizer_runs import NOISE_RUNS, QuantizerRuns
from harness.pipeline.reference.intermediate import FloatModule, find_written_inputs
from harness.record.cell import Intermediate
from harness.record.evidence import Quality
from harness.vendors.torch import TreeSpec, tree_leaves

# Places with clipped values that are reported.
_SHOWN = 5

RunWithout = Callable[[Sequence[str], Sequence[CallInputs]], Sequence[CallResult]]
"""Takes the names of modules, and the calls to run."""

QUANTIZED = "quantized"
"""Name of the quantized graph among the intermediate forms of a program."""


@dataclass(frozen=True)
class Prediction:
    """What the quantized graph of a program should be.

    Attributes:
        runs: runs of the prepared graph, which conversion has changed since.
        calls: the predicted calls.
        operations: the operations of the prepared graph.
        wrong_grids: what is wrong with the grids of the quantizer.
        lost_write: a write in place that quantization loses.
        results: the outputs of each call, with every place rounded to its grid.
        reference: the float model, with the errors that such rounding may cause.
        changed: positions of the flat inputs that the model changes.
        expected: the outputs of the float model.
        steps: number of steps of each rounded tensor.
        clipped: as in :class:`harness.record.evidence.Quality`.
        explained: further fields of that class.
    """

    runs: QuantizerRuns
    calls: Sequence[CallInputs]
    operations: Sequence[Operation]
    wrong_grids: Sequence[str]
    lost_write: str | None
    results: Sequence[CallResult]
    reference: Reference | None
    changed: frozenset[int]
    expected: Sequence[CallResult]
    steps: Sequence[int]
    clipped: dict[str, float]
    explained: dict[str, Any]


def predict(
    runs: QuantizerRuns,
    calibration: Sequence[CallInputs],
    original: FloatModule,
    *,
    is_apart: bool = False,
    lost_write: str | None = None,
    options: QualityOptions = QualityOptions(),  # noqa: B008  (frozen)
    run_without: RunWithout | None = None,
) -> Prediction:
    """Predict the quantized graph of a prepared graph that was calibrated.

    Args:
        runs: runs of the prepared graph.
        calibration: the calls that calibrated it.
        original: the float module, with the calls to predict.
        is_apart: whether the calls are others than those that calibrated.
        lost_write: as in :class:`Prediction`.
        options: what to measure of the output that is farthest from the float model.
        run_without: runs the graph as it is quantized with some modules in float; None where the
            recipe cannot leave modules in float.
    """
    calls = original.calls
    wrong = runs.find_wrong_grids(calibration)
    results = runs.run_quantized(calls)
    expected = original.runs(original.module, calls)
    changed = frozenset(find_written_inputs(expected) | find_written_inputs(results))
    if any(call.inputs.keys() != changed for call in results):
        results = runs.run_quantized(calls, changed)
    expected = original.runs.with_inputs(original.module, calls, changed)
    operations = list_operations(runs.prepared, runs.places)
    reference = _bound_noise(runs, calls, expected, results)
    steps = runs.count_steps()
    return Prediction(
        runs,
        calls,
        operations,
        wrong,
        lost_write,
        results,
        reference,
        changed,
        expected,
        steps,
        _find_clipped(runs, calls) if is_apart else {},
        _explain_quality(runs, calls, results, expected, options, run_without),
    )


def _explain_quality(
    runs: QuantizerRuns,
    calls: Sequence[CallInputs],
    results: Sequence[CallResult],
    expected: Sequence[CallResult],
    options: QualityOptions,
    run_without: RunWithout | None,
) -> dict[str, Any]:
    """Fields of a :class:`Quality`, as far as the options ask for them."""
    if not options.explain and options.reach_db is None:
        return {}
    steps = runs.count_steps()
    quality = measure_quality(results, expected, expect_sqnr(steps), len(steps))
    if quality is None:
        return {}
    search = ErrorSearch(runs, calls, expected, quality.output)
    found: dict[str, Any] = {"parts": search.list_worst()} if options.explain else {}
    if options.reach_db is not None and run_without is not None:

        def measure(names: Sequence[str]) -> float:
            try:
                sides = (run_without(names, calls), expected)
            except UnsupportedProgram:
                return math.inf  # nothing is left to quantize
            outputs = ([call.outputs[quality.output] for call in side] for side in sides)
            sqnr = compute_sqnr(*outputs)
            return -math.inf if sqnr is None else sqnr

        ranked = search.rank_modules()
        kept, reached = find_modules(ranked, options.reach_db, measure)
        found |= {"keep_float": kept, "reached_db": reached, "wanted_db": options.reach_db}
    return found


def _find_clipped(runs: QuantizerRuns, calls: Sequence[CallInputs]) -> dict[str, float]:
    """The share of values that are clipped at the places with the largest share."""
    observed = runs.observe(calls).items()
    shares = {place.name: values.clipped_share for place, values in observed}
    worst = sorted(shares, key=shares.__getitem__, reverse=True)[:_SHOWN]
    return {name: shares[name] for name in worst if shares[name]}


def _bound_noise(
    runs: QuantizerRuns,
    calls: Sequence[CallInputs],
    expected: Sequence[CallResult],
    rounded: Sequence[CallResult],
) -> Reference | None:
    """The float model as a reference, with bounds from runs with noise.

    The run that rounds is one of them: where a tensor has equal values, their errors are equal,
    which independent noise underestimates. None where the graph does not run with noise, or an
    output has another shape: its size depends on the values.
    """
    natives = [collect_values(call) for call in expected]
    truths = [[_widen(value) for value in values] for values in natives]
    estimators = [
        [make_estimator(*pair, torch.float32) for pair in zip(native, truth, strict=True)]
        for native, truth in zip(natives, truths, strict=True)
    ]
    try:
        add_run(rounded, estimators)
        for sample in range(NOISE_RUNS):
            changed = expected[0].inputs.keys()
            add_run(runs.run_noisy(calls, sample, changed), estimators)
    except Exception:  # a module may raise any error for values that noise has moved
        return None
    precision = Precision()
    bound = [
        [None if one is None else one.compute_bound(precision) for one in values]
        for values in estimators
    ]
    return Reference(
        truths,
        bound,
        natives,
        places=[collect_places(call) for call in expected],
        specs=[call.spec for call in expected],
        alternatives=[
            [None if one is None else one.alternatives for one in values] for values in estimators
        ],
    )


def _widen(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.double() if is_float else value


def compare_quantized(
    graph: GraphModule,
    prediction: Prediction,
    in_spec: TreeSpec,
    runs: EagerRuns,
    compute_reference: Callable[[], Reference],
) -> tuple[Intermediate, Quality | None]:
    """Compare a quantized graph with its prediction, and with the float model.

    Args:
        graph: the converted graph.
        prediction: made from the same graph before its conversion.
        in_spec: tree of inputs that it was exported with.
        runs: keeps the run of the graph.
        compute_reference: computes the reference of the graph. It judges the prediction where
            outputs differ although no operand does, as after quantization-aware training, which
            ends in other operators.
    """
    calls = prediction.calls
    returned = runs.with_inputs(graph, calls, prediction.changed)
    values = [collect_values(call) for call in returned]
    interface = Interface(in_spec, returned[0].spec, tuple(collect_places(returned[0])))
    problems = list(prediction.wrong_grids[:1])
    if len(prediction.wrong_grids) > 1:
        problems.append(f"and {len(prediction.wrong_grids) - 1} other grids are wrong")
    if prediction.lost_write is not None:
        problems.append(prediction.lost_write)
    pairs = zip(returned, prediction.results, strict=True)
    is_equal = all(one.equals(other) for one, other in pairs)
    problem = _find_wrong_operand(graph, prediction, interface.arrange(calls[0]))
    if problem is None and not is_equal:
        # In a later call, a nested graph, or a graph with other operators.
        predicted = [collect_values(call) for call in prediction.results]
        problem = compare(predicted, compute_reference(), interface=interface).problem
        if problem is not None:
            problem = f"(got: of the graph before it, expected: of the one it made) {problem}"
    if problem is not None:
        problems.append(f"conversion changed it: {problem}")
    numerics = []
    if prediction.reference is not None:
        numerics = compare(values, prediction.reference, interface=interface).numerics
    form = Intermediate(
        name=QUANTIZED,
        identical=is_equal and problem is None,
        numerics=numerics,
        problem="; ".join(problems) or None,
    )
    steps = prediction.steps
    quality = measure_quality(returned, prediction.expected, expect_sqnr(steps), len(steps))
    if quality is not None:
        quality = msgspec.structs.replace(
            quality, clipped=prediction.clipped, **prediction.explained
        )
    return form, quality


def _find_wrong_operand(graph: GraphModule, prediction: Prediction, call: CallInputs) -> str | None:
    try:
        return find_wrong_conversion(
            graph, prediction.operations, tree_leaves(arguments(call)), prediction.runs.quantize
        )
    except NotComparable:
        return None
