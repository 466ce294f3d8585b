"""Ask the installed vendors' code which operators it takes, and write that beside a run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.coverage.claims import TargetClaims, find_claims_file, write_claims
from harness.errors import describe
from harness.execution.operators import list_core_operators
from harness.model import registry
from harness.model.backend import ClaimsOperators, get_library
from harness.record.run import Run
from harness.record.target import Target
from harness.vendors.quiet import quiet_vendors
from harness.vendors.versions import installed_version


def ask_claims(target: Target) -> TargetClaims:
    """Ask a backend for the claims of a recipe; an error of the vendor's code is their problem."""
    backend = registry.backend(target.backend)
    recipe = backend.recipes[target.recipe]
    operators, problem, kernels = None, "", False
    core: dict[str, list[str]] = {}
    try:
        with quiet_vendors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            core = list_core_operators()
            kernels = not recipe.partitioners() and not get_library(backend)
            if isinstance(backend, ClaimsOperators):
                operators = dict(sorted(backend.claim_operators(recipe).items()))
    except Exception as error:  # of the vendor's code
        problem = describe(error)
    return TargetClaims(
        target=str(target),
        packages={
            name: installed_version(name) for name in sorted(backend.availability().packages)
        },
        kernels=kernels,
        operators=operators,
        problem=problem,
        core=core,
    )


def record_claims(folder: Path, target: Target) -> None:
    """Write the claims of a target's recipe into a run folder, unless they are there.

    A program of several delegates has no claims of its own. An error of the disk loses them.
    """
    target = target.base
    if not target.is_mixed and not find_claims_file(folder, target).exists():
        with suppress(OSError):
            write_claims(folder, ask_claims(target))


def complete_claims(run: Run, read: Iterable[str]) -> list[str]:
    """Write claims that a run lacks: an old one, one of a cluster, or one of reused cells.

    Args:
        run: the run. Its releases must be those that are installed here.
        read: targets whose claims it has.

    Returns:
        Why claims of targets cannot be written, a line each.
    """
    parsed = {Target.parse(cell.target).base for cell in run.cells if cell.delegation.calls}
    missing = sorted(each for each in parsed if not each.is_mixed and str(each) not in set(read))
    remarks = []
    for target in missing:
        recorded = run.info.environment.packages
        claims = ask_claims(target)
        other = [
            f"{name} {recorded[name]}"
            for name, version in claims.packages.items()
            if recorded.get(name, version) != version
        ]
        if other:
            remarks.append(f"{target}: the run has {', '.join(other)}, which is not installed here")
        else:
            write_claims(run.path, claims)
    return remarks
