"""How large a fault is seen: one weight of a module multiplied by a factor, against its bounds.

    python -m benchmarks.verdicts.sensitivity --cases '*/tiny' --targets '*:fp32|*:bf16'

Takes each case below PATHS (default ``suites/models``) with the arithmetic of each target, without
lowering it: multiplies the first weight of two dimensions or more by FACTOR, runs the module in
float64 and prints which share of the bounds the outputs are off by, and the relative fault that
would be seen if outputs followed it linearly. Recipes that quantize are left out: their reference
is the quantized graph. ``widest`` is the root mean square of the bound over that of the values.
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

from benchmarks.verdicts.false_alarms import matches, select
from harness import Case, Tester, registry
from harness.errors import StageFailure
from harness.numerics.oracle import Reference
from harness.numerics.unperturbed import run_unperturbed
from harness.pipeline import speed
from harness.record.target import Target
from harness.vendors.quiet import silence_vendors
from harness.vendors.torch import tree_map


@dataclass
class Seen:
    """What the modules of a target show.

    Attributes:
        faults: the relative fault that uses the whole bound, of each module.
        widths: the bound over the values, of each module.
    """

    faults: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--factor", default=1.001, help="What the weight is multiplied by; default: 1.001.")
@click.option("--cases", "names", default="*", help="Globs over cases, separated by |.")
@click.option("--targets", default="*", help="Globs over targets, separated by |.")
def main(paths: Sequence[Path], factor: float, names: str, targets: str) -> None:
    """Measure and print."""
    silence_vendors()
    torch.set_num_threads(1)
    speed.install()
    console, seen = Console(), dict[Target, Seen]()
    for case, _ in select(paths, names):
        for target in registry.targets_of(case, None):
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
            found = seen.setdefault(target, Seen())
            found.faults.append(abs(factor - 1) / used if used else float("inf"))
            found.widths.append(width)
            console.print(f"{case.name}@{target}: {used:.3g} of the bound", markup=False)
    table = Table(title=f"a weight of the first layer, times {factor}")
    for column in ("target", "modules", "seen from (median)", "seen from (worst)", "widest"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for target, found in sorted(seen.items(), key=lambda item: str(item[0])):
        figures = statistics.median(found.faults), max(found.faults), max(found.widths)
        table.add_row(str(target), str(len(found.faults)), *(f"{each:.2g}" for each in figures))
    console.print(table)


def measure(case: Case, target: Target, factor: float) -> tuple[float | None, float]:
    """The share of its bounds that a module with a changed weight uses, None where it has no such
    weight; and the bound of its outputs over their values, in the root mean square.

    Raises:
        StageFailure: the case cannot be built or run.
    """
    tester = Tester(case, target)
    reference = tester.compute_reference().reference
    altered = copy.deepcopy(tester.built.module)
    if all(each.dim() < 2 for each in altered.parameters()):
        return None, 0.0
    # In float64: in 16 bits most products would round back to what they were.
    altered = altered.double()
    with torch.no_grad():
        weight = next(each for each in altered.parameters() if each.dim() > 1)
        weight.mul_(factor)
    found = run_unperturbed(altered, tree_map(_wide, list(tester.built.calls)), 0)
    return _used(reference, found.truths), _width(reference)


def _wide(item: object) -> object:
    is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
    return item.double() if is_float else item  # type: ignore[attr-defined]


def _used(reference: Reference, found: Sequence[Sequence[object]]) -> float:
    used = 0.0
    for oracle, bound, other in _values(reference, found):
        used = max(used, float(((other - oracle).abs() / bound).nan_to_num().max()))
    return used


def _width(reference: Reference) -> float:
    widths = [
        float(bound.norm() / oracle.norm())
        for oracle, bound, _ in _values(reference, reference.oracle)
        if bool(bound.isfinite().all()) and bool(oracle.any())
    ]
    return max(widths, default=0.0)


def _values(
    reference: Reference, found: Sequence[Sequence[object]]
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Of floating outputs with elements: the oracle, the bound, and what was found."""
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
