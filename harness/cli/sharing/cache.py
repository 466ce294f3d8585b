"""``conform cache``: list and prune the caches of this user."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from harness.cli.common import RenamedOption
from harness.errors import UsageError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SPANS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

_RESULTS = "results"
_RESULT_CACHE = click.option(
    "--result-cache",
    "--results",
    "location",
    cls=RenamedOption,
    metavar="URL",
    default="",
    help="Use this result cache: a folder, or a URL such as s3://bucket/results.  [default: a "
    "folder in the user's cache folder]",
)


@click.group()
def cache() -> None:
    """List and prune the caches in the user's cache folder.

    Entries may be removed at any time; they are created again when needed (docs/incremental.md).
    """


@cache.command("list")
@_RESULT_CACHE
def listing(location: str) -> None:
    """List all caches: entries, bytes, time since last use of the oldest entry, folder."""
    from rich.console import Console
    from rich.table import Table

    from harness.cache_folders import CACHES, cache_folder, list_entries
    from harness.session.result_cache.store import ResultStore, find_default_place
    from reports import text

    table = Table("cache", "entries", "bytes", "unused", "contents", box=None)
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    for name, what in CACHES.items():
        if name == _RESULTS:
            used = ResultStore(location or find_default_place()).compute_usage()
            count, size, unused = used.cells, used.size, used.oldest
        else:
            found = list_entries(name)
            count, size = len(found), sum(entry.size for entry in found)
            unused = found[0].unused if found else None
        oldest = "" if unused is None else text.seconds(unused)
        table.add_row(name, str(count), text.size(size), oldest, what)
    Console().print(table)
    click.echo(f"in {cache_folder(_RESULTS).parent}")
    if location:
        click.echo(f"results in {location}")


@cache.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--max-size", metavar="SIZE", help="Remove entries until each cache is smaller: 500M, 2G."
)
@click.option(
    "--max-age", metavar="TIME", help="Remove entries that were unused for longer: 12h, 30d."
)
@click.option("--clear", is_flag=True, help="Remove all entries.")
@_RESULT_CACHE
def prune(
    names: Sequence[str], max_size: str | None, max_age: str | None, clear: bool, location: str
) -> None:
    """Remove the least recently used entries of the named caches; default: of all.

    Locks of running workers are not removed; a worker removes its own.
    """
    from harness.cache_folders import CACHES, list_entries, prune as prune_cache
    from harness.session.result_cache.store import ResultStore, find_default_place
    from reports import text

    if clear == (max_size is not None or max_age is not None):
        raise click.UsageError("give --max-size, --max-age or both; or --clear")
    if unknown := [name for name in names if name not in CACHES]:
        raise click.UsageError(f"no cache {', '.join(unknown)}; choose from: {', '.join(CACHES)}")
    if location and _RESULTS not in (names or CACHES):
        raise click.UsageError("--result-cache applies to the cache named results; name it as well")
    most = 0.0 if clear else None if max_size is None else _size(max_size)
    oldest = None if max_age is None else _span(max_age)
    for name in names or CACHES:
        if name == _RESULTS:
            gone = ResultStore(location or find_default_place()).prune(
                max_size=most, max_age=oldest
            )
            count, size = gone.cells, gone.size
        else:
            removed = prune_cache(name, max_size=most, max_age=oldest)
            count, size = len(removed), sum(entry.size for entry in removed)
        click.echo(f"{name}: removed {text.count(count, 'entry', 'entries')}, {text.size(size)}")
        if clear and name != _RESULTS and (left := list_entries(name)):
            click.echo(f"{name}: {text.count(len(left), 'entry', 'entries')} in use, not removed")


def _size(text: str) -> float:
    return _number(text, "--max-size", _UNITS, "500M")


def _span(text: str) -> float:
    return _number(text, "--max-age", _SPANS, "30d")


def _number(text: str, option: str, units: dict[str, int], example: str) -> float:
    """Parse a number with a unit.

    Raises:
        UsageError: the text is something else.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*?)b?", text.strip().lower())
    if found is None or found[2] not in units:
        raise UsageError(f"{option} {text!r} is not valid; write it like {example}")
    return float(found[1]) * units[found[2]]
