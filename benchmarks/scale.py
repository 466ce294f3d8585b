"""Cost of a cell by the size of its operator: seconds and peak memory, for each target.

    python -m benchmarks.scale [--largest N] [--targets mlx:fp32,xnnpack:fp32] [--html plot.html]

Each cell runs in its own process on one core, after a small cell that does the one-time loading.
Seconds are of the whole cell, including the vendor's runtime. Memory is the peak of any stage above
the memory of the process before. The exponent is the power of the size with which seconds grow,
between the smallest and the largest size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from harness.vendors.quiet import silence_vendors

TARGETS = ("xnnpack:fp32", "mlx:fp32", "metal:fp32", "tosa:fp", "portable:fp32")

Built: TypeAlias = tuple[Any, tuple[Any, ...]]
"""A module and its inputs."""


class ScaledOperator(NamedTuple):
    """An operator, or a block of them, in several sizes.

    Attributes:
        build: creates the module and inputs of a size.
        sizes: from small to a realistic size.
        elements: the quantity that the cost is compared with, in millions.
        unit: unit of that quantity.
    """

    build: Callable[[int], Built]
    sizes: tuple[int, ...]
    elements: Callable[[int], float]
    unit: str


def convolution(images: int) -> Built:
    """Voxtral's first convolution on ``images`` windows of audio."""
    import torch

    return torch.nn.Conv1d(128, 1280, 3), (torch.randn(images, 128, 3000),)


def attention(heads: int) -> Built:
    """Causal attention of an audio encoder with ``heads`` heads."""
    import torch

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Attention(), tuple(torch.randn(1, heads, 1500, 64) for _ in range(3))


def decoder_layer(hidden: int, tokens: int = 128, width: int = 64) -> Built:
    """A decoder layer of this width; Llama 3.2 1B has 2048."""
    import torch

    functional = torch.nn.functional
    heads, shared = hidden // width, max(hidden // width // 4, 1)

    def linear(inputs: int, outputs: int) -> torch.nn.Linear:
        return torch.nn.Linear(inputs, outputs, bias=False)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = torch.nn.ModuleList([torch.nn.RMSNorm(hidden, 1e-5) for _ in range(2)])
            self.q, self.o = linear(hidden, hidden), linear(hidden, hidden)
            self.k, self.v = (linear(hidden, shared * width) for _ in range(2))
            self.gate, self.up = (linear(hidden, 4 * hidden) for _ in range(2))
            self.down = linear(4 * hidden, hidden)
            rate = 500000.0 ** (-torch.arange(0, width, 2) / width)
            angle = torch.cat([torch.arange(tokens)[:, None] * rate] * 2, -1)
            self.cos, self.sin = torch.nn.Buffer(angle.cos()), torch.nn.Buffer(angle.sin())

        def split(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(1, tokens, -1, width).transpose(1, 2)

        def rotated(self, x: torch.Tensor) -> torch.Tensor:
            first, second = x.chunk(2, -1)
            return x * self.cos + torch.cat([-second, first], -1) * self.sin

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norms[0](x)
            q, k = self.rotated(self.split(self.q(y))), self.rotated(self.split(self.k(y)))
            k, v = (one.repeat_interleave(heads // shared, 1) for one in (k, self.split(self.v(y))))
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(seen.transpose(1, 2).reshape(1, tokens, hidden))
            y = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    return Layer(), (torch.randn(1, tokens, hidden),)


OPERATORS = {
    "convolution": ScaledOperator(convolution, (1, 3, 10), lambda n: n * 1280 * 2998e-6, "outputs"),
    "attention": ScaledOperator(attention, (2, 8, 32), lambda n: n * 1500 * 1500e-6, "scores"),
    "decoder layer": ScaledOperator(
        decoder_layer, (512, 1024, 2048), lambda n: 14.5 * n * n * 1e-6, "weights"
    ),
}


class CellCost(NamedTuple):
    """Cost of one cell: seconds of all its stages, peak GiB, and its status."""

    kind: str
    target: str
    millions: float
    seconds: float
    gibibytes: float
    status: str
    stages: dict[str, float]


def measure(kind: str, size: int, target: str) -> CellCost:
    """Measure one cell, in this process."""
    silence_vendors()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import torch

    from harness import Case, run_cell
    from harness.pipeline import speed

    torch.set_num_threads(1)
    speed.install()
    run_cell(Case("warm", lambda: (torch.nn.Linear(64, 64), (torch.randn(4, 64),))), target)
    speed.tune_garbage_collector()
    start = time.perf_counter()
    cell = run_cell(Case("scale", lambda: OPERATORS[kind].build(size)), target)
    seconds = time.perf_counter() - start
    peak = max(cell.memory.values(), default=math.nan) / 2**30
    status = cell.status.value if cell.error is None else f"{cell.status.value}: {cell.error}"
    stages = {stage: round(spent, 2) for stage, spent in cell.stages.items()}
    return CellCost(kind, target, OPERATORS[kind].elements(size), seconds, peak, status, stages)


def compute_exponent(first: CellCost, last: CellCost) -> float:
    """Return the exponent of the seconds as a power of the size."""
    return math.log(last.seconds / first.seconds) / math.log(last.millions / first.millions)


def plot(costs: list[CellCost], path: Path) -> None:
    """Write a page with seconds and memory of all operators against size, with logarithmic axes."""
    from plotly import graph_objects
    from plotly.colors import qualitative
    from plotly.subplots import make_subplots

    kinds = list(dict.fromkeys(cost.kind for cost in costs))
    figure = make_subplots(
        rows=2, cols=len(kinds), shared_xaxes=True, vertical_spacing=0.06, column_titles=kinds
    )
    for (kind, target), rows in _group(costs).items():
        column = kinds.index(kind) + 1
        color = qualitative.Safe[TARGETS.index(target) % 10] if target in TARGETS else "black"
        for row, values in ((1, [r.seconds for r in rows]), (2, [r.gibibytes for r in rows])):
            figure.add_trace(
                graph_objects.Scatter(
                    x=[r.millions for r in rows],
                    y=values,
                    name=target,
                    legendgroup=target,
                    showlegend=row == column == 1,
                    mode="lines+markers",
                    line={"color": color},
                ),
                row=row,
                col=column,
            )
        figure.update_xaxes(title=f"million {OPERATORS[kind].unit}", row=2, col=column)
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    figure.update_yaxes(title="seconds", row=1, col=1)
    figure.update_yaxes(title="GiB", row=2, col=1)
    figure.update_layout(title="One cell, one core", template="plotly_white", height=720)
    figure.write_html(path, include_plotlyjs=True)


def _group(costs: list[CellCost]) -> dict[tuple[str, str], list[CellCost]]:
    groups: dict[tuple[str, str], list[CellCost]] = {}
    for cost in costs:
        groups.setdefault((cost.kind, cost.target), []).append(cost)
    return groups


def _measure_in_process(kind: str, size: int, target: str) -> CellCost:
    command = [sys.executable, "-m", "benchmarks.scale", "--one", kind, str(size), target]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        status = f"ended with {made.returncode}: {made.stderr.strip().splitlines()[-1:]}"
        return CellCost(
            kind, target, OPERATORS[kind].elements(size), math.nan, math.nan, status, {}
        )
    return CellCost(*json.loads(made.stdout.splitlines()[-1]))


def main() -> None:
    """Measure, print a line for each cell, and plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--largest", type=int, default=3, help="number of sizes, smallest first (3)"
    )
    parser.add_argument(
        "--kinds", default=",".join(OPERATORS), help="comma-separated operators (all)"
    )
    parser.add_argument(
        "--targets", default=",".join(TARGETS), help="comma-separated (all float32 targets)"
    )
    parser.add_argument("--html", type=Path, help="write a plot to this file")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]), given.one[2])))
        return
    costs = []
    for kind in given.kinds.split(","):
        for target in given.targets.split(","):
            rows = [
                _measure_in_process(kind, n, target) for n in OPERATORS[kind].sizes[: given.largest]
            ]
            for row in rows:
                print(
                    f"{kind:14} {target:14} {row.millions:7.1f} M {OPERATORS[kind].unit:8}"
                    f"{row.seconds:7.1f} s {row.gibibytes:6.2f} GiB  {row.status}  {row.stages}",
                    flush=True,
                )
            costs += rows
            if len(rows) > 1:
                print(f"{kind:14} {target:14} exponent {compute_exponent(rows[0], rows[-1]):.2f}")
    if given.html:
        plot(costs, given.html)
        print(f"plot: {given.html}")


if __name__ == "__main__":
    main()
