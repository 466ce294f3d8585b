"""``conform cache``: the results that ``--incremental`` keeps."""

from __future__ import annotations

import re

import click

from harness.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

_PLACE = click.option(
    "--results",
    metavar="URL",
    default="",
    help="A folder, or a URL that fsspec knows, such as s3://bucket/results; default: in the "
    "user's cache folder.",
)


@click.group()
def cache() -> None:
    """Results of cells that conform run --incremental need not run again.

    A result is taken only for a cell of exactly the same sources, packages, kind of host and
    options (docs/incremental.md). It may be deleted at any time.
    """


@cache.command()
@_PLACE
def info(results: str) -> None:
    """Say where results are, how many, and how large they are."""
    from harness.results.store import Store, default_place
    from reports import text

    place = results or default_place()
    found = Store(place).usage()
    click.echo(f"{place}\n{text.count(found.cells, 'result')}, {text.size(found.size)}")
    if found.oldest is not None:
        click.echo(f"the one that was longest unused: {text.seconds(found.oldest)}")


@cache.command()
@click.option("--max-size", metavar="SIZE", help="Bytes that may stay, such as 500M or 2G.")
@click.option("--max-age", metavar="TIME", help="How long one may be unused, such as 12h or 30d.")
@click.option("--clear", is_flag=True, help="Remove all.")
@_PLACE
def prune(results: str, max_size: str | None, max_age: str | None, clear: bool) -> None:
    """Remove what was longest unused."""
    from harness.results.store import Store, default_place
    from reports import text

    if clear == (max_size is not None or max_age is not None):
        raise click.UsageError("give --max-size, --max-age or both; or --clear")
    place = results or default_place()
    gone = Store(place).prune(
        max_size=0 if clear else None if max_size is None else _size(max_size),
        max_age=None if max_age is None else _span(max_age),
    )
    click.echo(f"{place}\nremoved: {text.count(gone.cells, 'result')}, {text.size(gone.size)}")


def _size(spelled: str) -> float:
    return _number(spelled, "--max-size", _UNITS, "500M")


def _span(spelled: str) -> float:
    return _number(spelled, "--max-age", _SPANS, "30d")


def _number(spelled: str, option: str, units: dict[str, int], such_as: str) -> float:
    """A number with a unit.

    Raises:
        UsageError: it is none.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)b?", spelled.strip().lower())
    if found is None or found[2] not in units:
        raise UsageError(f"{option} {spelled!r} is not spelled such as {such_as}")
    return float(found[1]) * units[found[2]]
