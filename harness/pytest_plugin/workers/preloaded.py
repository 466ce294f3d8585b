"""What every process that runs cells imports, for a server that forks them (:mod:`.forking`).

Importing computes nothing, and starts no thread.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

from harness.pytest_plugin.items import collector_paused

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
"""What is imported late, or by others, and takes a good part of the seconds of a short session."""

# What is loaded here stays: a collection in a forked process would write to what it shares.
with collector_paused(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from harness.pipeline import speed
    from harness.vendors.quiet import quiet_imports

    quiet_imports()
    speed.prepare()
    import harness.pipeline.runner  # noqa: F401

    speed.find_disabled_parts()  # imports its parts
    for name in _LATER:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
