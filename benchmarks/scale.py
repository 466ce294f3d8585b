"""What the reference and the comparison cost as operators grow: time and peak memory against size.

    python -m benchmarks.scale [--largest N]

Each size runs in a process of its own, on one core. The exponent is that of the time in the number
of output elements (or scores, for attention) between the smallest and the largest size.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import TypeAlias

import torch

from harness import Precision, refer
from harness.numerics.compare import compare

F = torch.nn.functional

Problem: TypeAlias = tuple[torch.nn.Module, tuple[torch.Tensor, ...], int]
"""A module, its inputs, and the number of elements that its cost is held against."""


class Attention(torch.nn.Module):
    """Causal attention."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attend."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def convolution(size: int) -> Problem:
    """A fraction of Voxtral's first layer; all of it at 10."""
    return torch.nn.Conv1d(128, 1280, 3), (torch.randn(size, 128, 3000),), size * 1280 * 2998


def attention(size: int) -> Problem:
    """So many heads of an audio encoder."""
    inputs = tuple(torch.randn(1, size, 1500, 64) for _ in range(3))
    return Attention(), inputs, size * 1500 * 1500


SIZES: dict[str, tuple[Callable[[int], Problem], list[int]]] = {
    "convolution": (convolution, [1, 3, 10]),
    "attention": (attention, [2, 8, 32]),
}


def measure(kind: str, size: int) -> dict[str, float]:
    """One size, in this process: seconds, and GiB above what was there before."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    module, inputs, elements = SIZES[kind][0](size)
    module = module.eval().requires_grad_(False)
    base = _peak()
    start = time.perf_counter()
    reference = refer(module, [inputs], Precision(), 0)
    referred = time.perf_counter()
    assert compare(reference.eager, reference).passed
    return {
        "elements": elements,
        "reference": referred - start,
        "compare": time.perf_counter() - referred,
        "memory": _peak() - base,
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=3, help="how many of the three sizes")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return
    for kind, (_, sizes) in SIZES.items():
        rows = []
        for size in sizes[: given.largest]:
            command = [sys.executable, "-m", "benchmarks.scale", "--one", kind, str(size)]
            made = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(made.stdout.splitlines()[-1])
            rows.append(row)
            print(
                f"{kind:12} {row['elements'] / 1e6:7.1f} M  reference {row['reference']:6.1f} s  "
                f"compare {row['compare']:5.1f} s  {row['memory']:5.2f} GiB"
            )
        if len(rows) > 1:
            first, last = rows[0], rows[-1]
            growth = math.log(last["elements"] / first["elements"])
            spent = [row["reference"] + row["compare"] for row in (first, last)]
            print(
                f"{kind:12} time grows with exponent {math.log(spent[1] / spent[0]) / growth:.2f}"
            )


if __name__ == "__main__":
    main()
