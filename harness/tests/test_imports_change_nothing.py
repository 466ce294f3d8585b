"""Importing the harness changes nothing in the process: no vendor's attribute, hook or setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.pytest_plugin.tests.sessions import script

_LOOK = """
import gc, importlib, json, logging, os, pkgutil, signal, sys, tempfile, threading, warnings

import torch, executorch.exir, execnet, xdist, torchao.quantization.pt2e
import executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils

OURS = ("harness", "backends", "reports", "suites")
# Modules that the fork server imports, and text of scripts that run without this project.
BUT = {"harness.pytest_plugin.workers.preloaded", "backends.mlx.standalone"}

def is_ours(value):
    return str(getattr(value, "__module__", "")).partition(".")[0] in OURS

def replaced():
    found = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in OURS or module is None or name == "__main__":
            continue
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if is_ours(value):
                found.add(f"{name}.{key}")
            elif isinstance(value, type) and value.__module__ == name:
                found |= {f"{name}.{key}.{each}" for each, one in list(vars(value).items())
                          if is_ours(one)}
    return found

def settings():
    return {
        "filters": len(warnings.filters),
        "levels": {name: logger.level for name, logger in logging.Logger.manager.loggerDict.items()
                   if isinstance(logger, logging.Logger) and logger.level},
        "disabled": logging.root.manager.disable,
        "collector": [gc.isenabled(), gc.get_freeze_count(), *gc.get_threshold()],
        "finders": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
        "hooks": [str(each) for each in sys.path_hooks],
        "path": list(sys.path),
        "environ": dict(os.environ),
        "folder": [os.getcwd(), tempfile.tempdir],
        "threads": [torch.get_num_threads(), threading.active_count()],
        "signals": [str(signal.getsignal(each)) for each in signal.valid_signals()],
        "except": str(sys.excepthook),
    }

def names():
    for package in OURS[:3]:
        found = importlib.import_module(package)
        for each in pkgutil.walk_packages(found.__path__, package + "."):
            if ".tests" not in each.name and "__main__" not in each.name and each.name not in BUT:
                yield each.name
"""


def _printed(code: str, *arguments: str) -> Any:
    return json.loads(script(_LOOK + code, *arguments, anew=True).stdout.splitlines()[-1])


@pytest.mark.nightly
def test_importing_everything_replaces_nothing_and_sets_nothing(tmp_path: Path) -> None:
    loaded = _printed("""
print(json.dumps([[importlib.import_module(name).__name__ for name in names()],
                  [name for name in sys.modules if name.partition(".")[0] not in OURS]]))
""")
    ours, others = tmp_path / "ours", tmp_path / "others"
    ours.write_text(json.dumps(loaded[0]))
    others.write_text(json.dumps(loaded[1]))
    assert len(loaded[0]) > 300
    # Import the vendors first: their own changes do not count.
    changed = _printed(
        """
import contextlib, pathlib
for name in json.loads(pathlib.Path(sys.argv[2]).read_text()):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
before, was = replaced(), settings()
for name in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    importlib.import_module(name)
now = settings()
print(json.dumps({"replaced": sorted(replaced() - before),
                  **{key: [was[key], now[key]] for key in now if now[key] != was[key]}}))
""",
        str(ours),
        str(others),
    )
    assert changed == {"replaced": []}
