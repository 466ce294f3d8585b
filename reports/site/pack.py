"""Data files of the site: JSON inside a script, so that a page opened from disk can load them.

A browser fetches no file from ``file://``, but it runs scripts. The JSON is in a string that
the script parses, which is faster than code and gives keys no special meaning.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.record.number_text import spell_number

_ESCAPES = (
    (b"\\", b"\\\\"),
    (b"'", b"\\'"),
    # Needed only if the text is pasted into a page.
    (b"<", b"\\x3c"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def script(name: str, value: Any) -> bytes:
    """Make the text of a file that passes ``value`` to the page under ``name``.

    Args:
        name: generated name of the file, never text from a record.
        value: lists, dicts, strings, ints, None and finite floats; see :func:`number`.
    """
    body = msgspec.json.encode(value)
    for plain, escaped in _ESCAPES:
        body = body.replace(plain, escaped)
    return b"conform.put('" + name.encode() + b"','" + body + b"');\n"


def number(value: float | None) -> float | str | None:
    """Round a float to six digits; infinities and NaN become texts, as in the records."""
    spelled: float | str | None = spell_number(value)
    return float(f"{spelled:.6g}") if isinstance(spelled, float) else spelled
