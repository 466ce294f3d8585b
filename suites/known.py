"""Helpers for limitations of programs from torch and executorch.

Most of them have the same cause as a case of this project. They copy its limitation, so that each
cause is described once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness import Limitation, Status, is_installed_within
from harness.record.target import Target, matches_any_glob, matches_target

FOLDED_NORM = (
    "prepare_pt2e folds a batch norm into the layer before it (_fuse_conv_bn_ and "
    "_fuse_linear_bn_ in torchao/quantization/pt2e/utils.py) without asking who else reads the "
    "layer: other readers get the normalized values. "
    "Workaround: normalize `hidden.clone()`."
)
"""A cause that limitations of several suites have."""


def variants(operator: str, names: str) -> str:
    """Globs over the cases of an operator, from the parts of their names after the slash."""
    return "|".join(f"{operator}/{name}" for name in names.split())


def copy_limitation(
    known: Iterable[Limitation], target: str, case: str, cases: str, /, **changes: Any
) -> Limitation:
    """Copy the limitation of one case to other cases on the same target.

    Of several limitations it takes the one of the installed release: a case may fail differently
    in an earlier release.

    Args:
        known: limitations, one of which matches the case on the target.
        target: the target.
        case: name of the case.
        cases: globs over the other cases, separated by ``|``.
        changes: fields that differ, such as an error with other sizes.

    Raises:
        LookupError: no limitation matches.
    """
    wanted = Target.parse(target)
    found = [
        entry
        for entry in known
        if matches_target(entry.target, wanted) and matches_any_glob(entry.case, case)
    ]
    if not found:
        raise LookupError(f"no limitation of {case} on {target}")
    entry = next((one for one in found if is_installed_within(one.since, one.until)), found[0])
    return replace(entry, **{"target": target, "case": cases, "op": "*", "tag": None, **changes})


def copy_to_vgf(known: Iterable[Limitation], without: str = "") -> list[Limitation]:
    """Copy limitations of TOSA to VGF, whose programs the same code lowers, for the recipes that
    both have. Errors of TOSA's reference model become the error for the same cause on VGF.

    Args:
        known: limitations.
        without: globs over cases that VGF passes or fails in another way, separated by ``|``.
    """
    copies = []
    for recipe in ("fp", "int", "int16", "bf16"):
        tosa, vgf = Target("tosa", recipe), Target("vgf", recipe)
        for entry in known:
            if not matches_target(entry.target, tosa) or matches_target(entry.target, vgf):
                continue
            cases = [each for each in entry.case.split("|") if not matches_any_glob(without, each)]
            error = _find_vgf_error(entry)
            if cases and error is not None:
                copies.append(replace(entry, target=str(vgf), case="|".join(cases), **error))
    return copies


def _find_vgf_error(entry: Limitation) -> dict[str, str] | None:
    """Return the fields of a limitation of TOSA that differ on VGF; None if VGF computes a result
    where TOSA's reference model refuses to."""
    if entry.stage != "run" or entry.outcome is not Status.FAILED:
        return {}
    if "TOSA_UNPREDICTABLE" in entry.error:
        return None
    if "TOSA graph has" in entry.error:
        return {"error": entry.error.replace("TOSA graph has", "the VGF has")}
    if "Invalid TOSA graph" in entry.error:  # the converter checks what it converts
        return {"stage": "lower", "error": "Vgf compiler failed"}
    if any(words in entry.error for words in (" bytes ", "planned tensor", "reference model")):
        return {"error": "in memory order, the VGF declares"}
    return {}


def missing_feature(target: str, case: str, feature: str, *, stage: str, error: str) -> Limitation:
    """Make the limitation of cases that need a feature of executorch 1.5.0.

    Args:
        target: glob over targets.
        case: globs over the cases, separated by ``|``.
        feature: the feature, for "executorch 1.4.1 has no ...".
        stage: the stage that fails without it.
        error: the error of that stage.
    """
    return Limitation(
        target=target,
        case=case,
        reason=f"executorch 1.4.1 has no {feature}.",
        stage=stage,
        error=error,
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    )
