"""Render a judgement as GitHub workflow commands: ``::error title=...::message``."""

from __future__ import annotations

import secrets

from reports import text
from reports.comparison.gate.judge import Colour, Judgement

# GitHub shows ten annotations of each level per step.
_ERRORS = 9
_LENGTH = 800


def render(judged: Judgement) -> list[str]:
    """Render the commands, worst first; the last one counts the omitted errors."""
    found = [
        (f"{change.kind.label}: {change.id}", f"{change.description}\n{change.cell.repro}")
        for change in judged.red
    ]
    found += [("waiver", line) for line in judged.waivers]
    lines = [format_command("error", *item) for item in found[:_ERRORS]]
    if len(found) > _ERRORS:
        number = f"and {text.count(len(found) - _ERRORS, 'more error')}"
        lines.append(format_command("error", "conformance gate", f"{number}; {judged.sentence}"))
    level = "error" if judged.colour is Colour.UNJUDGED else "warning"
    for line in judged.obstacles[:_ERRORS]:
        lines.append(format_command(level, "could not judge", line))
    if judged.colour is Colour.GREEN:
        lines.append(format_command("notice", "conformance gate", f"green: {judged.sentence}"))
    return lines


def format_command(level: str, title: str, message: str) -> str:
    """Format one workflow command; texts are escaped, so that they cannot start another."""
    name = _escape(text.line(title, 200)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{_escape(text.clean(message, _LENGTH))}"


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def make_stop_commands() -> tuple[str, str]:
    """Make two lines between which GitHub ignores workflow commands.

    Otherwise a text from a record at the start of a line could be a command.
    """
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"
