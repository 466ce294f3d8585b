"""Write samples.json, the choice of OpInfo samples that are cases.

    python -m suites.opinfo.choose [--check]

Samples are chosen at random, with the names of operator and dtype as seed, among the samples that
eager computes and a program can take: outputs are real tensors, and no tensor is large. With
``--check`` nothing is written, and the script prints the entries that differ.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from harness.model.seeding import seed_generators_with
from harness.vendors.torch import tree_leaves
from suites.opinfo.sampling import DTYPES, REFUSALS, entries, program, samples

COUNT = {"float32": 4}
"""Number of samples of an operator by dtype; other dtypes have one."""
LARGEST = 20_000
"""Largest number of elements of a tensor."""
CHOSEN = Path(__file__).with_name("samples.json")


def choose_samples() -> dict[str, dict[str, list[int]]]:
    """Choose the numbers of samples, by entry and dtype."""
    found: dict[str, dict[str, list[int]]] = {}
    for name, info in sorted(entries().items()):
        for dtype in DTYPES:
            with seed_generators_with(0), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # deprecated operators have samples, too
                usable = list(_usable(info, dtype))
            if usable:
                count = min(COUNT.get(dtype, 1), len(usable))
                drawn = random.Random(f"{name} {dtype}").sample(usable, count)
                found.setdefault(name, {})[dtype] = drawn
    return found


def _usable(info: Any, dtype: str) -> Iterator[int]:
    for number, sample in enumerate(samples(info, dtype)):
        if not all(map(_is_plain, tree_leaves((sample.input, sample.args, sample.kwargs)))):
            continue
        if sample.kwargs.get("dropout_p") or not _computes(info, sample):
            continue  # random outputs cannot be compared
        yield number


def _computes(info: Any, sample: Any) -> bool:
    """Whether eager computes a sample in both layouts and returns real tensors."""
    for strided in (False, True):
        module, inputs = program(info, sample, strided)
        try:
            leaves = tree_leaves(module(*inputs))
        except REFUSALS:
            return False
        if not inputs or not leaves:
            return False
        if not all(isinstance(leaf, torch.Tensor) and _is_plain(leaf) for leaf in leaves):
            return False
    return True


def _is_plain(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return leaf.layout is torch.strided and not leaf.is_complex() and leaf.numel() <= LARGEST
    return leaf is None or isinstance(leaf, bool | int | float | str | torch.dtype)


def _find_changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def main() -> None:
    """Write samples.json, or check it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    given = parser.parse_args()
    found = choose_samples()
    if given.check:
        if differing := _find_changed(json.loads(CHOSEN.read_text(encoding="utf-8")), found):
            sys.exit(f"samples of {', '.join(differing)} differ in torch {torch.__version__}")
        return
    lines = [f"  {json.dumps(name)}: {json.dumps(dtypes)}" for name, dtypes in found.items()]
    CHOSEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    count = sum(len(numbers) for dtypes in found.values() for numbers in dtypes.values())
    print(
        f"wrote {CHOSEN.name}: {count} samples of {len(found)} entries, torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
