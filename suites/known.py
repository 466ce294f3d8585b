"""Limitations of programs that come from elsewhere: most have the cause of a case of ours, and say
what that says, so that each cause is written down once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness import Limitation, Status, is_installed_within
from harness.record.target import Target, matches_any_glob, matches_target


def variants(operator: str, names: str) -> str:
    """Globs over cases of an operator, of their names behind the slash."""
    return "|".join(f"{operator}/{name}" for name in names.split())


def as_known(known: Iterable[Limitation], target: str, case: str, cases: str) -> Limitation:
    """What is known of one case on a target, of others on that target.

    Of several entries that of the installed release: a case may have failed otherwise before.

    Args:
        known: entries among which there is one of the case.
        target: whose.
        case: name of the case.
        cases: globs over the others, separated by ``|``.

    Raises:
        LookupError: there is no such entry.
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
    return replace(entry, target=target, case=cases, op="*", tag=None)


def absent(target: str, case: str, what: str, *, stage: str, error: str) -> Limitation:
    """Cases that are about something which came with 1.5.0.

    Args:
        target: glob over targets.
        case: globs over the cases, separated by ``|``.
        what: it is, for "executorch 1.4.1 has no ...".
        stage: that fails without it.
        error: what the stage says then.
    """
    return Limitation(
        target=target,
        case=case,
        reason=f"executorch 1.4.1 has no {what}.",
        stage=stage,
        error=error,
        shown_as=Status.UNSUPPORTED,
        until="1.5.0",
    )
