"""Avoid work that torch and exir repeat for every program. Programs stay the same.

Without this package, lowering one operator takes 0.5 s, mostly on work that does not depend on the
program. Each part replaces vendor functions to avoid one kind of work:

* ``graph_code``: a graph module generates its Python code on first use.
* ``memoized``: results that no program influences are cached, such as 36,000 registered kernels.
* ``export``: targets of a case share decomposition tables and decompositions.
* ``passes``: passes reuse results on fake tensors; walks without effect are skipped.
* ``unread_text``: graphs and stacks are not formatted when no one reads the text.
* ``eviction``: caches drop programs that are finished.
* ``calibration``: the range search of an observer skips steps without effect.
* ``patterns``: XNNPACK's quantizer traces each pattern once.

``stack_chunks`` is no part: it replaces no vendor function. docs/adr/0004 has the measurements.

A part is valid for the vendor code that was reviewed when the part was written.
:mod:`~harness.pipeline.speed.originals` compares the installed code with it; a part whose replaced
or assumed definitions differ is disabled, and the run record lists it with the reason.

Importing this package replaces nothing. A process that lowers calls :func:`install` before it
lowers. :mod:`harness.vendors.replacements` lists the replacements and :func:`uninstall` removes
them. ``--no-speed`` makes none of these calls.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import Any

from harness.errors import UsageError
from harness.pipeline.speed.originals import find_problems
from harness.vendors import replacements
from harness.vendors.replacements import AttributeReplacer

PARTS = tuple(
    """
    graph_code memoized
    export.decomposition_tables export.decompositions
    passes.fake_results passes.argument_trees passes.skipped_walks passes.pattern_filter
    unread_text eviction calibration patterns
    """.split()
)
"""The parts in the order of installation: modules of this package with ``install()``."""

# They skip code of vendors' lowering, or replace it. The others cache results of such code at most
# once a process, or call it.
_INCOMPLETE_PARTS = frozenset(
    """
    passes.fake_results passes.argument_trees passes.skipped_walks passes.pattern_filter
    calibration
    """.split()
)
# Functions of exir that the part memoized replaces.
_REPLACED_IN_EXIR = ("dim_order_from_stride", "_remove_invalid_ops_for_not_decompose")

# Accepted in the variable for one release.
_FORMER_NAMES = {
    "code": "graph_code",
    "kept": "memoized",
    "converting.tables": "export.decomposition_tables",
    "converting.decomposing": "export.decompositions",
    "walking.faked": "passes.fake_results",
    "walking.replay": "passes.argument_trees",
    "walking.retracing": "passes.skipped_walks",
    "walking.unmatched": "passes.pattern_filter",
    "untold": "unread_text",
    "forgotten": "eviction",
}
# Parts that existed, by all of their names; docs/adr/0004 says why they were removed.
_REMOVED_PARTS = frozenset(
    """
    lean lazy_imports converting.tracing export.traces converting.edge export.edge_programs
    walking.delegated passes.delegate_calls walking.propagation passes.propagation
    walking.verifying passes.verification
    delegating.merging delegates.partitions delegating.payloads delegates.payloads inductor
    """.split()
)

NO_SPEED_VARIABLE = "CONFORM_NO_SPEED"
"""The environment variable that disables parts, separated by commas, in a process and its children.
Use it to find the part that makes a program differ from upstream's."""


def read_excluded_parts() -> frozenset[str]:
    """Return the parts that :data:`NO_SPEED_VARIABLE` names.

    Names of parts that no longer exist are ignored, with a warning on stderr once per process.

    Raises:
        UsageError: a name is no part.
    """
    text = os.environ.get(NO_SPEED_VARIABLE, "").replace(" ", "")
    names = frozenset(_FORMER_NAMES.get(name, name) for name in text.split(",") if name)
    if unknown := names.difference(PARTS, _REMOVED_PARTS):
        raise UsageError(
            f"{NO_SPEED_VARIABLE}: no part {', '.join(sorted(unknown))}; "
            f"there are {', '.join(PARTS)}"
        )
    for name in sorted(names & _REMOVED_PARTS):
        _warn_of_removed_part(name)
    return names - _REMOVED_PARTS


@functools.cache
def _warn_of_removed_part(name: str) -> None:
    print(
        f"{NO_SPEED_VARIABLE}: the part {name} is gone, so its name has no effect; "
        "remove it from the variable",
        file=sys.stderr,
    )


def find_disabled_parts() -> MappingProxyType[str, str]:
    """Return the parts that this process does not use, each with the reason.

    A part is disabled when :data:`NO_SPEED_VARIABLE` names it, or when a vendor definition that it
    replaces or assumes is missing or differs from the reviewed one. The function installs nothing.
    The result is cached: it does not notice later changes of vendor code.

    Raises:
        UsageError: the variable names no part.
    """
    reasons = dict.fromkeys(read_excluded_parts(), f"{NO_SPEED_VARIABLE} names it")
    return MappingProxyType(reasons | _find_incompatible_parts())


@functools.cache
def _find_incompatible_parts() -> dict[str, str]:
    reasons = {part: "; ".join(find_problems(part)) for part in PARTS}
    return {part: reason for part, reason in reasons.items() if reason}


def install(*, complete: bool = False) -> None:
    """Install the parts that are not disabled; further calls do nothing.

    Args:
        complete: run all code of vendors' lowering, because its execution is recorded: leave out
            the parts that skip or replace some of it.
    """
    if replacements.has_replaced(replacements.SPEED):
        return
    disabled = find_disabled_parts()
    for part in PARTS:
        if part not in disabled and not (complete and part in _INCOMPLETE_PARTS):
            _import_part(part).install(AttributeReplacer(replacements.SPEED + part))
    if complete:
        for name in _REPLACED_IN_EXIR:
            replacements.undo_replacements(replacements.SPEED, name)
    replacements.set_runs_all_vendor_code(complete)


def uninstall() -> None:
    """Undo :func:`install`; no lowering may be in progress.

    Raises:
        RuntimeError: other code has replaced an attribute since; nothing is undone.
    """
    replacements.undo_replacements(replacements.SPEED)


@contextmanager
def install_temporarily() -> Iterator[None]:
    """Install the parts for the length of a block, unless they are installed already."""
    if replacements.has_replaced(replacements.SPEED):
        yield
        return
    install()
    try:
        yield
    finally:
        uninstall()


def _import_part(part: str) -> Any:
    module: ModuleType = importlib.import_module(f"{__name__}.{part}")
    return module


_COLLECTION_THRESHOLDS = (10_000, 10, 10)
"""A model's graphs are millions of objects that stay alive. A full collection for each 77,000 new
objects takes a tenth of lowering, for each 1.1 million a twentieth. Higher thresholds are no faster
and hold more memory."""


def tune_garbage_collector() -> None:
    """Exclude the objects that exist now from garbage collection, and collect less often.

    Otherwise each full collection walks millions of objects of the imported libraries, and tracing
    allocates enough to trigger several collections a program.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
