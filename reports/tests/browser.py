"""A headless Chromium for tests and benchmarks; a test without one skips and says why."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str | None:
    """Why no browser can be driven here; None when one can."""
    try:
        importlib.import_module("playwright.sync_api")
    except ImportError:
        return "playwright is not installed; pip install playwright"
    if executable() is None:
        return f"none of {', '.join(_NAMES)} is installed, and CONFORM_CHROMIUM names none"
    return None


def executable() -> str | None:
    """The browser that CONFORM_CHROMIUM names, or the first that is installed."""
    named = os.environ.get("CONFORM_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)


@contextlib.contextmanager
def opened() -> Iterator[Any]:
    """A browser with an empty profile.

    Raises:
        RuntimeError: there is none; :func:`missing` says why.
    """
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    playwright: Any = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()
