"""Imports that all processes that run cells need; the fork server (:mod:`.fork_server`) loads them.

Importing this module computes nothing and starts no thread.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

from harness.pytest_plugin.items import pause_garbage_collector

_LATER = (
    # By the first export and the first lowering.
    "executorch.runtime",
    "torch._functorch.partitioners",
    "torch._inductor.compile_fx",
    "torch.export._trace",
    # By pytest: a plugin of hydra's, which executorch brings, is loaded wherever pytest is.
    "omegaconf",
    # By our plugin, which pytest must find not yet imported.
    "harness.pytest_plugin.controller",
    "harness.pytest_plugin.hooks",
    "harness.pytest_plugin.progress",
)
"""Modules that are imported late or by others, and take a large part of a short session."""

# Freeze loaded objects: a garbage collection in a forked process would copy shared memory.
with pause_garbage_collector(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from harness.pipeline import speed
    from harness.vendors.quiet import quiet_imports

    quiet_imports()
    import harness.pipeline.runner  # noqa: F401

    speed.find_disabled_parts()  # imports its parts
    for name in _LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
