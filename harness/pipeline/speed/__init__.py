"""Make repeated lowering cheap: keep what torch computes again for every program.

Lowering one operator takes 0.5 s upstream, most of it for things that do not depend on the program:
the dispatcher is walked for composite operators, three times, and 36,000 kernels are registered and
removed again, six times. Such results are kept, keyed by everything they depend on (``kept``). What
the targets of a case make alike of the exported program is made once (``converting``). Passes and
verifiers call every operator of a graph on fake tensors, as those before them did; what came of
that is kept, and a graph is not walked for nothing (``walking``). Partitions are merged in fewer
steps, and delegates written without another process (``delegating``). Each pass makes Python code
of its graph, which hardly any graph ever runs; that waits until somebody wants it (``code``).
Calibrating an integer recipe looks for the range of each tensor in up to 100,000 steps of two
tensor operations; those that change nothing are skipped (``calibration``). Lowering a model spends
a fifth of its time on deep-copying the provenance of nodes, which nobody writes to; it is shared
instead. Graphs are not written as text for logs that nobody reads (``untold``), Inductor's rules
are not made for each kernel (``inductor``), and what exir keeps of programs that are done is
dropped (``forgotten``). Calls of a cell find their frames in one chunk of Python's stack
(``stack``). What is lowered is unchanged (docs/adr/0004 has the measurements).

A part replaces functions, and assumes how others behave. Where one of either is not the one that
was read, the part is left out (``originals``), and the record of a run says so.

Nothing of this happens by an import: a process that lowers calls :func:`prepare` before executorch
is imported and :func:`install` before it lowers. :mod:`harness.vendors.replacements` lists what was
replaced, and :func:`uninstall` undoes it. Without these calls, as with ``--no-speed``, torch,
executorch and Python's garbage collector are as they were.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import Any

from harness.errors import UsageError
from harness.pipeline.speed import lazy_imports
from harness.pipeline.speed.originals import problems
from harness.vendors import replacements
from harness.vendors.replacements import Replacing

_LEAN = "lean"
PARTS = tuple(
    """
    lean code kept converting.tables converting.tracing converting.decomposing converting.edge
    walking.faked walking.delegated walking.replay walking.retracing walking.propagation
    walking.verifying walking.unmatched delegating.merging delegating.payloads untold forgotten
    calibration patterns inductor
    """.split()
)
"""The parts in the order in which they are installed: modules below this one with ``install()``."""


WITHOUT = "CONFORM_NO_SPEED"
"""The variable that names parts, with commas, that a process and those that it starts go without:
which of them makes another program than upstream is found so."""


def unwanted() -> frozenset[str]:
    """The parts that :data:`WITHOUT` names.

    Raises:
        UsageError: one is no part.
    """
    named = frozenset(filter(None, os.environ.get(WITHOUT, "").replace(" ", "").split(",")))
    if unknown := named.difference(PARTS):
        raise UsageError(
            f"{WITHOUT}: no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}"
        )
    return named


def left_out() -> MappingProxyType[str, str]:
    """The parts that this process goes without, and why: the vendors' definitions that they replace
    or assume are not those that were read, or are gone, or the parts are :func:`unwanted`. Nothing
    is installed by asking. The answer is kept: later alterations are not seen.

    Raises:
        UsageError: what is unwanted is no part.
    """
    return MappingProxyType(dict.fromkeys(unwanted(), f"{WITHOUT} names it") | _impossible())


@functools.cache
def _impossible() -> dict[str, str]:
    reasons = {part: "; ".join(problems(part)) for part in PARTS}
    return {part: reason for part, reason in reasons.items() if reason}


def prepare() -> None:
    """Have executorch's import leave Inductor out; to be called before executorch is imported.

    Imports nothing of torch's, and does nothing once executorch is there.
    """
    if _LEAN not in unwanted() and not problems(_LEAN):
        lazy_imports.install()


def install() -> None:
    """Install what is not :func:`left_out` in this process; further calls do nothing."""
    if replacements.is_sped_up():
        return
    prepare()
    for part in PARTS:
        if part != _LEAN and part not in left_out():
            _module(part).install(Replacing(replacements.SPEED + part))


def uninstall() -> None:
    """Undo :func:`install`, and :func:`prepare`; programs under way must have ended.

    Raises:
        RuntimeError: somebody else has replaced an attribute since; nothing is undone.
    """
    replacements.undo(replacements.SPEED)
    lazy_imports.uninstall()


@contextmanager
def installed() -> Iterator[None]:
    """Install the parts for the length of a block, unless they are installed already."""
    if replacements.is_sped_up():
        yield
        return
    install()
    try:
        yield
    finally:
        uninstall()


def _module(part: str) -> Any:
    found: ModuleType = importlib.import_module(f"{__name__}.{part}")
    return found


_THRESHOLDS = (10_000, 10, 10)
"""A model's graphs are millions of objects that live on: to walk them all for each 77,000 that were
made takes a tenth of lowering, for each 1.1 million a twentieth. Rarer is no quicker, and holds
more."""


def settle() -> None:
    """Tell the garbage collector that what is loaded now stays, and to look less often.

    Millions of objects of the imported libraries are otherwise walked by every full
    collection, and tracing allocates enough to trigger several per program.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
