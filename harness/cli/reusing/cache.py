"""``conform cache``: what the store of results holds, and what may go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.results.store import Store, Usage

_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_AGES = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

RESULTS = click.option(
    "--results",
    metavar="URL",
    help="The store: a folder, or a URL that fsspec knows, such as s3://bucket/results; default: "
    "in the user's cache folder.",
)


class _Size(click.ParamType[float]):
    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", str(value).strip(), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is no size, such as 500MB or 2GB", param, ctx)
        return float(found[1]) * _SIZES[found[2].upper()]


class _Age(click.ParamType[float]):
    name = "age"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([mhdw])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no age, such as 12h, 30d or 8w", param, ctx)
        return float(found[1]) * _AGES[found[2]]


@click.group()
def cache() -> None:
    """What conform run --incremental keeps of cells, so that nothing is run twice.

    A result is kept under a number for everything that it hangs on (docs/incremental.md), so one
    that is there is never wrong by being old: removing any costs time alone.
    """


@cache.command()
@RESULTS
def info(results: str | None) -> None:
    """Say where the store is and what it holds."""
    store = _store(results)
    found = store.usage()
    click.echo(f"{store.place}: {_words(found)}")
    if found.oldest is not None:
        click.echo(f"longest unused: {_ago(found.oldest)}")


@cache.command()
@click.option("--max-size", type=_Size(), metavar="SIZE", help="What may stay, such as 2GB.")
@click.option("--max-age", type=_Age(), metavar="AGE", help="Unused for longer goes: 12h, 30d, 8w.")
@click.option("--clear", is_flag=True, help="Everything goes.")
@RESULTS
def prune(max_size: float | None, max_age: float | None, clear: bool, results: str | None) -> None:
    """Remove what was unused for longest.

    In a folder an entry counts as used when a run took it; an object store tells when it was
    written. A run that is going on meanwhile runs what it does not find.
    """
    if clear == (max_size is not None or max_age is not None):
        raise click.UsageError("say what may stay, by --max-size or --max-age; or --clear")
    store = _store(results)
    gone = store.prune(max_size=0 if clear else max_size, max_age=max_age)
    click.echo(f"removed {_words(gone)}")
    click.echo(f"{store.place}: {_words(store.usage())}")


def _store(place: str | None) -> Store:
    from harness.results.store import Store, default_place

    return Store(place or default_place())


def _words(found: Usage) -> str:
    cells = "1 cell" if found.cells == 1 else f"{found.cells:,} cells"
    return f"{cells}, {found.size / 1e6:,.1f} MB"


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = int(seconds // unit)
            return f"{number:,} {name}{'' if number == 1 else 's'}"
    return "less than a minute"
