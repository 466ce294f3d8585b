"""Sensitivity: the smallest fault that fails, as a relative change of one weight.

    python -m benchmarks.verdicts.sensitivity --cases '*/tiny' --targets '*:fp32|*:bf16'

For each case below PATHS (default ``suites/models``), with the arithmetic of each target and
without lowering: multiplies the first weight of at least two dimensions by FACTOR, runs the module
in float64, and prints the share of the bounds that the outputs use. From this it extrapolates the
smallest relative fault that would fail, assuming that outputs follow linearly. Recipes that
quantize are skipped: their reference is the quantized graph. ``widest`` is the root mean square of
the bound divided by the root mean square of the values.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.verdicts.false_alarms import matches, select_cases
from harness import Case, Tester, registry
from harness.errors import StageFailure
from harness.numerics.oracle import Reference
from harness.numerics.unperturbed import run_unperturbed
from harness.pipeline import speed
from harness.record.target import Target
from harness.vendors.quiet import silence_vendors
from harness.vendors.torch import tree_map


@dataclass
class Sensitivity:
    """Results of the modules of one target.

    Attributes:
        faults: for each module, the relative fault that uses the whole bound.
        widths: for each module, the bound divided by the values.
    """

    faults: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--factor", default=1.001, help="Factor of the weight; default: 1.001.")
@click.option("--cases", "names", default="*", help="Globs over cases, separated by |.")
@click.option("--targets", default="*", help="Globs over targets, separated by |.")
def main(paths: Sequence[Path], factor: float, names: str, targets: str) -> None:
    """Measure and print."""
    silence_vendors()
    torch.set_num_threads(1)
    speed.install()
    console, seen = Console(), dict[Target, Sensitivity]()
    for case, _ in select_cases(paths, names):
        for target in registry.select_targets(case, None):
            if not matches(targets, str(target)):
                continue
            recipe = registry.recipe(target)
            if recipe.quantizer is not None or recipe.quantize_weights is not None:
                continue
            try:
                used, width = measure(case, target, factor)
            except StageFailure as failure:
                console.print(f"{case.name}@{target}: {failure}", markup=False)
                continue
            if used is None:
                continue
            found = seen.setdefault(target, Sensitivity())
            found.faults.append(abs(factor - 1) / used if used else float("inf"))
            found.widths.append(width)
            console.print(f"{case.name}@{target}: {used:.3g} of the bound", markup=False)
    table = Table(title=f"a weight of the first layer, times {factor}")
    for column in (
        "target",
        "modules",
        "smallest fault (median)",
        "smallest fault (worst)",
        "widest",
    ):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target, found in sorted(seen.items(), key=lambda item: str(item[0])):
        figures = statistics.median(found.faults), max(found.faults), max(found.widths)
        table.add_row(str(target), str(len(found.faults)), *(f"{each:.2g}" for each in figures))
    console.print(table)


def measure(case: Case, target: Target, factor: float) -> tuple[float | None, float]:
    """Measure a module with a changed weight.

    Returns:
        The bound used, or None where it has no such weight; and the bound of its outputs divided by
        their values, as root mean squares.

    Raises:
        StageFailure: the case cannot be built or run.
    """
    tester = Tester(case, target)
    reference = tester.compute_reference().reference
    altered = copy.deepcopy(tester.built.module)
    if all(each.dim() < 2 for each in altered.parameters()):
        return None, 0.0
    # In float64: in 16 bits most products would round back to the original values.
    altered = altered.double()
    with torch.no_grad():
        weight = next(each for each in altered.parameters() if each.dim() > 1)
        weight.mul_(factor)
    found = run_unperturbed(altered, tree_map(_to_float64, list(tester.built.calls)), 0)
    return _compute_used(reference, found.truths), _compute_width(reference)


def _to_float64(item: object) -> object:
    is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
    return item.double() if is_float else item  # type: ignore[attr-defined]


def _compute_used(reference: Reference, found: Sequence[Sequence[object]]) -> float:
    used = 0.0
    for oracle, bound, other in _collect_values(reference, found):
        used = max(used, float(((other - oracle).abs() / bound).nan_to_num().max()))
    return used


def _compute_width(reference: Reference) -> float:
    widths = [
        float(bound.norm() / oracle.norm())
        for oracle, bound, _ in _collect_values(reference, reference.oracle)
        if bool(bound.isfinite().all()) and bool(oracle.any())
    ]
    return max(widths, default=0.0)


def _collect_values(
    reference: Reference, found: Sequence[Sequence[object]]
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return oracle, bound and result of the non-empty floating outputs."""
    return [
        (oracle, bound, other)
        for call in zip(reference.oracle, reference.bound, found, strict=True)
        for oracle, bound, other in zip(*call, strict=False)
        if isinstance(oracle, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and bound is not None
        and oracle.is_floating_point()
        and oracle.numel()
    ]


if __name__ == "__main__":
    main()
