"""Which of the collected items run, and why something that was asked for is not among them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import ConformError
from harness.model import registry
from harness.model.selection import parse_targets
from harness.pytest_plugin.items import SELECTED, CellItem, cell_of
from harness.pytest_plugin.nightly import names_the_night, tiers
from harness.record.target import Target, split_cell_id
from harness.session.discovery import Suite, load_suite

_AT = "::"
"""Stands for the ``@`` of a cell's name in ``-k``, whose grammar has no such character."""

_END = ":::"
"""Before and behind a whole name of a cell in ``-k``, which matches parts."""


class Choosing:
    """In every process of a session: the night's cells are left to the night, and ``-k`` takes the
    names of cells as they are printed."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Before and while pytest selects by ``-k`` and ``-m``."""
        if not names_the_night(self.config):
            self._leave_to_the_night(items)
        with self._keyword_of_cells(items):
            return (yield)

    def _leave_to_the_night(self, items: list[pytest.Item]) -> None:
        """An expression of one's own replaces the project's "not nightly"."""
        by_day: list[pytest.Item] = []
        left: list[pytest.Item] = []
        asked = tiers(self.config)
        for item in items:
            (left if _is_nightly(item) and not _has_tag(item, asked) else by_day).append(item)
        if left:
            self.config.hook.pytest_deselected(items=left)
            items[:] = by_day

    @contextmanager
    def _keyword_of_cells(self, items: list[pytest.Item]) -> Iterator[None]:
        asked = self.config.option.keyword
        if "@" in asked:
            cells = [item for item in items if isinstance(item, CellItem)]
            names = {item.name for item in cells}

            def spelled(word: re.Match[str]) -> str:
                # A cell's whole name is not to match those that end or begin with it.
                return _whole(word[0]) if word[0] in names else word[0].replace("@", _AT)

            self.config.option.keyword = re.sub(r"[^\s()]+", spelled, asked)
            for item in cells:
                item.extra_keyword_matches.add(_whole(item.name))
        try:
            yield
        finally:
            self.config.option.keyword = asked


def _whole(cell: str) -> str:
    return f"{_END}{cell.replace('@', _AT)}{_END}"


def _is_nightly(item: pytest.Item) -> bool:
    return isinstance(item, CellItem) and item.get_closest_marker(registry.NIGHTLY) is not None


def _has_tag(item: pytest.Item, tags: frozenset[str]) -> bool:
    return isinstance(item, CellItem) and bool(item.case.tags & tags)


def absences(config: pytest.Config) -> list[str]:
    """Why what was named on the command line is not there, a sentence each; workers do not say."""
    start = config.invocation_params.dir
    found = (_absence(config, start, str(name)) for name in config.args)
    return [sentence for sentence in found if sentence]


def _absence(config: pytest.Config, start: Path, name: str) -> str:
    path = start / name.partition("::")[0]
    if not path.exists():
        return f"there is no {path}{_meant(start, path)}"
    if (cell := cell_of(name)) is None:
        return ""
    try:
        case, target = split_cell_id(cell)
        parse_targets([str(target)])
        return _unselected(case, target, load_suite(path), config.stash[SELECTED])
    except ConformError as error:
        return str(error)


def _meant(start: Path, path: Path) -> str:
    """What stands beside a path that does not exist, or below the suites under its name."""
    below = [each for each in start.glob("suites/**/*") if each.stem == path.stem]
    if same := sorted(str(each.relative_to(start)) for each in below if _is_suite(each)):
        return f"; did you mean {', '.join(same[:3])}?"
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    return _nearest(path.name, beside) or "; cases are chosen by name with -k"


def _is_suite(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and not path.name.startswith("_"))


def _unselected(name: str, target: Target, suite: Suite, selected: Sequence[Target] | None) -> str:
    """Why a cell of a suite is not selected, and what selects it; nothing where it is."""
    case = next((each for each in suite.cases if each.name == name), None)
    if case is None:
        near = _nearest(name, [each.name for each in suite.cases])
        return f"{suite.name} has no case {name}{near}"
    if target not in registry.select_targets(case, [target]):
        return f"{name} runs on {case.targets.replace('|', ', ')} only, and not on {target}"
    if target not in registry.select_targets(case, selected):
        which = "a plain run" if selected is None else "--targets"
        return f"{target} is not among the targets of {which}; select it with --targets {target}"
    if registry.is_nightly(case, target, selected):
        return f"{name}@{target} is left to the night; select it with -m nightly"
    return ""


def _nearest(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
