"""A judgement as GitHub's workflow commands: ``::error title=...::message``."""

from __future__ import annotations

import secrets

from reports import text
from reports.comparison.gate.judge import Colour, Judgement

# GitHub shows ten of each level a step.
_ERRORS = 9
_LENGTH = 800


def render(judged: Judgement) -> list[str]:
    """The lines, worst first; the last one says how many more there are."""
    found = [
        (f"{change.kind.label}: {change.id}", f"{change.description}\n{change.cell.repro}")
        for change in judged.red
    ]
    found += [("waiver", line) for line in judged.waivers]
    lines = [command("error", *item) for item in found[:_ERRORS]]
    if len(found) > _ERRORS:
        number = f"and {text.count(len(found) - _ERRORS, 'more error')}"
        lines.append(command("error", "conformance gate", f"{number}; {judged.sentence}"))
    level = "error" if judged.colour is Colour.UNJUDGED else "warning"
    for line in judged.obstacles[:_ERRORS]:
        lines.append(command(level, "could not judge", line))
    if judged.colour is Colour.GREEN:
        lines.append(command("notice", "conformance gate", f"green: {judged.sentence}"))
    return lines


def command(level: str, title: str, message: str) -> str:
    """One workflow command; nothing in the texts can end it or start another."""
    name = _escaped(text.line(title, 200)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_escaped(text.clean(message, _LENGTH))}"


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def quotes() -> tuple[str, str]:
    """The lines between which GitHub takes what is printed for text.

    A text of a record at the start of a line would otherwise be a command to the runner.
    """
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"
