"""The first run of a case's module: eagerly, before anything is made of it.

A module that cannot run is its case's fault, whatever exporting it or a backend would have said.
"""

from __future__ import annotations

import torch

from harness.errors import CaseError, UnsupportedProgram, describe
from harness.model.case import Built, Case
from harness.numerics.module_runs import EagerRuns, run_calls


def rehearse(case: Case, seed: int, dtype: str, built: Built, runs: EagerRuns) -> None:
    """Run a case's module for each call; what it returns stays in ``runs``.

    Args:
        case: as it was built.
        seed: run seed.
        dtype: name of the dtype that it was cast to.
        built: the result.
        runs: where the run is kept.

    Raises:
        UnsupportedProgram: it runs as its case made it, and cannot in this dtype.
        CaseError: it cannot run.
    """
    try:
        runs(built.module, built.calls)
    except Exception as error:
        said = describe(error)
        if dtype != "float32" and _runs(case.make(seed)):
            raise UnsupportedProgram(f"eager PyTorch cannot run it in {dtype}: {said}") from error
        if _trains(built):
            raise CaseError(
                f"the module runs in training mode only, and a program is what eval mode does: "
                f"there it raises {said}"
            ) from error
        raise CaseError(f"the module itself cannot run: {said}") from error


def _runs(built: Built) -> bool:
    try:
        run_calls(built.module, built.calls)
    except Exception:  # whatever a module raises
        return False
    return True


def _trains(built: Built) -> bool:
    """Whether the module runs in training mode. It is left in eval mode."""
    if isinstance(built.module, torch.fx.GraphModule):
        return False  # one mode is all it has
    built.module.train()
    try:
        return _runs(built)
    finally:
        built.module.eval()
