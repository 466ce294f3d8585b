"""A headless Chromium for tests and benchmarks; tests without one are skipped with a reason."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
    """Why no browser can be driven here; None when one can, or when CONFORM_CHROMIUM names one.

    Where that is set, as in CI, a browser that is not there fails the tests.
    """
    if os.environ.get("CONFORM_CHROMIUM"):
        return None
    if importlib.util.find_spec("playwright") is None:
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
    if reason is not None or executable() is None:
        raise RuntimeError(reason or "CONFORM_CHROMIUM does not name an executable")
    playwright: Any = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def follow(page: Any, address: str) -> None:
    """Follow a hash, and wait until its view is shown."""
    before = page.evaluate("document.body.dataset.ready")
    page.evaluate("hash => { location.hash = hash; }", address)
    page.wait_for_function("before => document.body.dataset.ready !== before", arg=before)


def hash_of(page: Any) -> str:
    """The address of the view."""
    made: str = page.evaluate("location.hash")
    return made


def is_wide(page: Any) -> bool:
    """Whether the page has to be scrolled sideways."""
    made: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return made


_MISSING = missing()
#: Marks tests that open pages.
needed = pytest.mark.skipif(_MISSING is not None, reason=f"no browser: {_MISSING}")
