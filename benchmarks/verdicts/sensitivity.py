"""Sensitivity: the smallest error in a layer that turns a cell red.

    python -m benchmarks.verdicts.sensitivity --targets 'xnnpack:*' --run FOLDER

For each recipe, and a linear layer, a convolution, an attention and three trained networks: an
error in the weights of the first, the middle and the last layer, in a single weight, in a bias, in
the scale of the layer's input, and in its zero point. The error is planted while the reference's
own module runs in eager, and its outputs are judged as those of a target. A target that errs by its
own rounding is red no later. Networks whose packages (suites/trained/requirements.txt) are not
installed are left out. --write needs all targets, and takes about half an hour. --run adds the
figures to a run folder, and the dashboard of the run has a page of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import torch
from rich.console import Console

from benchmarks.verdicts.false_alarms import matches
from benchmarks.verdicts.faults import Fault, count_layers, run_with_fault
from harness import Case, Tester, registry
from harness.errors import StageFailure
from harness.numerics.compare import compare
from harness.pipeline import speed
from harness.pipeline.route import find_unsupported_reason, prepare
from harness.record.target import Target
from harness.vendors.quiet import silence_vendors
from harness.vendors.versions import describe_missing_packages
from reports import sensitivity
from reports.sensitivity import KINDS, SmallestError
from suites.build import nn_case, randn
from suites.trained import images, pitch, voices

# Errors are tried in powers of two, from 2 times the value down.
_LARGEST, _SMALLEST = 1, -22
_IsRed = Callable[[float], bool | None]
"""Whether an error of a size is red; None if the layer has no such operand."""
_LAYERS = ("first", "middle", "last")


class Attention(torch.nn.Module):
    """Self-attention with 4 heads, between projections."""

    def __init__(self) -> None:
        super().__init__()
        self.joint, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (1, 24, 64) to the same shape."""
        query, key, value = self.joint(x).reshape(1, 24, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.mT / 4, -1)
        result: torch.Tensor = self.out((weights @ value).transpose(1, 2).reshape(1, 24, 64))
        return result


OPERATORS = [
    nn_case("operator/linear", lambda: torch.nn.Linear(64, 48), randn(32, 64)),
    nn_case("operator/conv2d", lambda: torch.nn.Conv2d(32, 16, 3, padding=1), randn(1, 32, 12, 12)),
    nn_case("operator/attention", Attention, randn(1, 24, 64)),
]
TRAINED = [
    case
    for module in (images, pitch, voices)
    for case in module.CASES
    if case.name.startswith(("mtcnn_onet", "crepe", "silero"))
]


@click.command(help=__doc__)
@click.option("--cases", "names", default="*", help="Globs over cases, separated by |.")
@click.option("--targets", default="*", help="Globs over targets, separated by |.")
@click.option("--write", "page", type=click.Path(path_type=Path), help="Write a Markdown page.")
@click.option("--run", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Write the figures into a run folder.")  # fmt: skip
def main(names: str, targets: str, page: Path | None, folder: Path | None) -> None:
    """Measure and print."""
    silence_vendors()
    torch.set_num_threads(2)
    speed.install()
    console, found = Console(), list[SmallestError]()
    for case in [*OPERATORS, *TRAINED]:
        if not matches(names, case.name):
            continue
        if missing := describe_missing_packages(case.requires):
            console.print(f"{case.name} is left out: {missing}", markup=False)
            continue
        for target in registry.known_targets():
            if target.backend == "null" or not matches(targets, str(target)):
                continue
            try:
                here = list(measure(replace(case, calls=None, targets="", metric=None), target))
            except StageFailure as failure:
                console.print(f"{case.name}@{target}: {failure}", markup=False)
                continue
            found += here
            for name, pairs in sensitivity.build_rows(here).items():
                worst = (pair[1] if pair else "–" for pair in pairs)
                sizes = ", ".join(map(" ".join, zip(KINDS, worst, strict=True)))
                console.print(f"{case.name}@{name}: {sizes}", markup=False)
        if folder is not None:
            sensitivity.write(folder, found)
    table = sensitivity.format_table(sensitivity.build_rows(found))
    console.print(table, markup=False)
    if page is not None:
        kinds = "\n".join(f"| {kind} | {meaning} |" for kind, meaning in KINDS.items())
        page.write_text(_PAGE.format(table=table, kinds=f"| column | error |\n|---|---|\n{kinds}"))


def measure(case: Case, target: Target) -> Iterator[SmallestError]:
    """Measure the layers of a module on a target; nothing where the target does not support it.

    Raises:
        StageFailure: a stage failed.
    """
    tester = Tester(case, target)
    if find_unsupported_reason(tester) is not None:
        return
    prepare(tester)
    reference = tester.compute_reference().reference
    module, calls = tester.reference_module, tester.built.calls
    count = count_layers(module, calls[0])
    has_codes = any(step is not None for step in reference.steps) or tester.recipe.quantizer
    for layer, at in dict(zip((0, count // 2, count - 1), _LAYERS, strict=True)).items():
        for kind in KINDS:
            if kind == "zero point" and not has_codes:
                continue

            def is_red(size: float, kind: str = kind, layer: int = layer) -> bool | None:
                outputs = run_with_fault(module, calls, Fault(kind, layer, size))
                return None if outputs is None else not compare(outputs, reference).passed

            size = _find_smallest_step(is_red) if kind == "zero point" else _find_smallest(is_red)
            if size is not None:
                found = None if math.isinf(size) else size
                yield SmallestError(case.name, str(target), at, kind, found)


def _find_smallest_step(is_red: _IsRed) -> float | None:
    for steps in (1, 2, 4, 8):
        found = is_red(steps)
        if found is None:
            return None
        if found:
            return float(steps)
    return math.inf


def _find_smallest(is_red: _IsRed) -> float | None:
    """Return the smallest power of two that is red, by halving the exponents."""
    low, high = _SMALLEST, _LARGEST + 1
    while low < high:
        middle = (low + high) // 2
        found = is_red(2.0**middle)
        if found is None:
            return None
        low, high = (low, middle) if found else (middle + 1, high)
    return math.inf if low > _LARGEST else 2.0**low


_PAGE = """\
# Sensitivity

Read this page to see how small an error has to be to pass. Each figure is the smallest error in one
layer that turns a cell red, as the median and the worst of the first, the middle and the last layer
of a linear layer, a convolution, an attention, and three trained networks (MTCNN O-Net, CREPE,
Silero). `none` is an error that twice the value does not show.

```sh
python -m benchmarks.verdicts.sensitivity --write docs/sensitivity.md
```

{kinds}

Errors are powers of two, planted in the reference's own module; its outputs are judged as those of
a target. A target that errs by its own rounding as well is red at the same error or a smaller one.

{table}

- A target of 16-bit floats rounds more than a target of float32, and hides larger errors.
- In 8 bits an error shows by the share of codes that change
  ([numerics.md](numerics.md#sensitivity)): one weight of many changes few codes of one channel.
- In the first layer of a deep network in 8 bits, a small error changes as many codes at the end as
  the rounding of a few numbers near a tie.
- Silero returns twelve numbers for a call: in 8 bits no error in one of its layers shows in them.
- Arm fuses requantizations between two sums, whose programs may differ by more steps on TOSA.
"""


if __name__ == "__main__":
    main()
