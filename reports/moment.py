"""Times in records."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(said: str | None) -> datetime | None:
    """Parse an ISO 8601 time; the result is in UTC. A time without a zone is UTC.

    None if the text is not a time, or is outside the calendar after conversion to UTC.
    """
    try:
        when = datetime.fromisoformat(said or "")
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
