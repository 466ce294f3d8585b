"""When something happened, as records say it."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(said: str | None) -> datetime | None:
    """The moment that an ISO 8601 text names, in UTC; without a zone it is taken for UTC.

    None when it names none, or one that lies outside the calendar once its zone is applied.
    """
    try:
        when = datetime.fromisoformat(said or "")
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
