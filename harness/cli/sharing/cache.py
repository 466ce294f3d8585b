"""``conform cache``: the folders below the user's cache folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from harness.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

_RESULTS = "results"
_PLACE = click.option(
    "--results",
    metavar="URL",
    default="",
    help="Where --incremental keeps results: a folder, or a URL such as s3://bucket/results; "
    "default: in the user's cache folder.",
)


@click.group()
def cache() -> None:
    """List and prune the folders below the user's cache folder.

    Entries may be removed at any time; they are made again when they are needed
    (docs/incremental.md).
    """


@cache.command("list")
@_PLACE
def listing(results: str) -> None:
    """List all caches: entries, bytes, how long the oldest entry was unused, folder."""
    from rich.console import Console
    from rich.table import Table

    from harness.cache_folders import CACHES, cache_folder, entries
    from harness.session.result_cache.store import Store, default_place
    from reports import text

    table = Table("cache", "entries", "bytes", "unused", "what it holds", box=None)
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    for name, what in CACHES.items():
        if name == _RESULTS:
            used = Store(results or default_place()).usage()
            count, size, unused = used.cells, used.size, used.oldest
        else:
            found = entries(name)
            count, size = len(found), sum(entry.size for entry in found)
            unused = found[0].unused if found else None
        oldest = "" if unused is None else text.seconds(unused)
        table.add_row(name, str(count), text.size(size), oldest, what)
    Console().print(table)
    click.echo(f"below {cache_folder(_RESULTS).parent}")
    if results:
        click.echo(f"results in {results}")


@cache.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--max-size", metavar="SIZE", help="Bytes that may stay in each, such as 500M or 2G.")
@click.option("--max-age", metavar="TIME", help="How long one may be unused, such as 12h or 30d.")
@click.option("--clear", is_flag=True, help="Remove all entries.")
@_PLACE
def prune(
    names: Sequence[str], max_size: str | None, max_age: str | None, clear: bool, results: str
) -> None:
    """Remove entries that were longest unused, from the named caches; default: from all.

    The locks of running workers are not removed; a worker removes its own.
    """
    from harness.cache_folders import CACHES, entries, prune as prune_cache
    from harness.session.result_cache.store import Store, default_place
    from reports import text

    if clear == (max_size is not None or max_age is not None):
        raise click.UsageError("give --max-size, --max-age or both; or --clear")
    if unknown := [name for name in names if name not in CACHES]:
        raise click.UsageError(f"no cache {', '.join(unknown)}; there are: {', '.join(CACHES)}")
    if results and _RESULTS not in (names or CACHES):
        raise click.UsageError("--results names the place of the cache results; name it as well")
    most = 0.0 if clear else None if max_size is None else _size(max_size)
    oldest = None if max_age is None else _span(max_age)
    for name in names or CACHES:
        if name == _RESULTS:
            gone = Store(results or default_place()).prune(max_size=most, max_age=oldest)
            count, size = gone.cells, gone.size
        else:
            removed = prune_cache(name, max_size=most, max_age=oldest)
            count, size = len(removed), sum(entry.size for entry in removed)
        click.echo(f"{name}: removed {text.count(count, 'entry', 'entries')}, {text.size(size)}")
        if clear and name != _RESULTS and (left := entries(name)):
            click.echo(f"{name}: {text.count(len(left), 'entry', 'entries')} in use stay")


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
