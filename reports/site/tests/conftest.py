"""A browser, and two sites to open in it. The sites are made once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reports import site
from reports.site.tests import browser as chromium
from reports.site.tests.nights import hostile, store


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with chromium.opened() as made:
        yield made


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("store") / "runs", nights=5, cases=60)


@pytest.fixture(scope="session")
def index(nights: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return site.write(tmp_path_factory.mktemp("made") / "site", [nights], full=2).index.as_uri()


@pytest.fixture(scope="session")
def evil(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = hostile(tmp_path_factory.mktemp("evil") / "runs")
    return site.write(folder.parent / "site", [folder]).index.as_uri()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page; fail if it logs, requests or raises anything."""
    contexts, problems = [], []

    def open_page(address: str, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 800}} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: problems.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: asked.url.startswith(("file:", "data:"))
                or problems.append(f"asked for {asked.url}"))  # fmt: skip
        page.on("requestfailed", lambda asked: problems.append(f"failed: {asked.url}"))
        page.goto(address)
        page.wait_for_function("document.body.dataset.ready")
        page.problems = problems
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
