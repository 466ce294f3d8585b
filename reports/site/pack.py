"""Data files of the site: JSON inside a script, so that a page opened from disk can load them.

A browser fetches no file from ``file://``, but it runs scripts. The JSON stands in a string that
the script parses: quicker than the same as code, and no key of it can mean anything.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.record.number_text import spell_number

_ESCAPES = (
    (b"\\", b"\\\\"),
    (b"'", b"\\'"),
    # Nothing in a script file ends it, but somebody may paste it into a page.
    (b"<", b"\\x3c"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def script(name: str, value: Any) -> bytes:
    """The text of a file that hands ``value`` to the page under ``name``.

    Args:
        name: our own name of the file, never text of a record.
        value: lists, dicts, strings, ints, None and finite floats; see :func:`number`.
    """
    body = msgspec.json.encode(value)
    for plain, escaped in _ESCAPES:
        body = body.replace(plain, escaped)
    return b"conform.put('" + name.encode() + b"','" + body + b"');\n"


def number(value: float | None) -> float | str | None:
    """A float with six digits; JSON has no infinities, so they are spelled as in the records."""
    spelled: float | str | None = spell_number(value)
    return float(f"{spelled:.6g}") if isinstance(spelled, float) else spelled
