"""Run a case's module eagerly before it is exported.

An error in this run is the case's fault, not that of export or a backend.
"""

from __future__ import annotations

import torch

from harness.errors import CaseError, UnsupportedProgram, describe
from harness.model.case import Built, Case
from harness.numerics.module_runs import EagerRuns, run_calls


def run_module_eagerly(case: Case, seed: int, dtype: str, built: Built, runs: EagerRuns) -> None:
    """Run a case's module for each call and keep the outputs in ``runs``.

    Args:
        case: the case.
        seed: run seed.
        dtype: name of the dtype that the module was cast to.
        built: its module and inputs.
        runs: keeps the run.

    Raises:
        UnsupportedProgram: the module runs in its own dtype, but not in this one.
        CaseError: the module cannot run.
    """
    try:
        runs(built.module, built.calls)
    except Exception as error:
        why = describe(error)
        if dtype != "float32" and _can_run(case.make(seed)):
            raise UnsupportedProgram(f"eager PyTorch cannot run it in {dtype}: {why}") from error
        if _can_train(built):
            raise CaseError(
                "the module runs in training mode only; programs are exported in eval mode, "
                f"where it raises {why}"
            ) from error
        raise CaseError(f"the module itself cannot run: {why}") from error


def _can_run(built: Built) -> bool:
    try:
        run_calls(built.module, built.calls)
    except Exception:  # a module may raise any error
        return False
    return True


def _can_train(built: Built) -> bool:
    """Whether the module runs in training mode. It is in eval mode afterwards."""
    if isinstance(built.module, torch.fx.GraphModule):
        return False  # a graph has one mode only
    built.module.train()
    try:
        return _can_run(built)
    finally:
        built.module.eval()
