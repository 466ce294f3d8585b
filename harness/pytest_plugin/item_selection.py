"""Selects collected items, and explains why a requested item is missing."""

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
from harness.pytest_plugin.items import SELECTED, CellItem, get_cell_id
from harness.pytest_plugin.nightly import get_selected_tiers, marks_name_nightly
from harness.record.target import Target, split_cell_id
from harness.session.discovery import Suite, load_suite

_AT = "::"
"""Replaces ``@`` in cell names in ``-k``, whose grammar has no such character."""

_END = ":::"
"""Delimits a complete cell name in ``-k``, which otherwise matches parts of names."""


class ItemSelection:
    """Deselects nightly cells, and lets ``-k`` take cell names as they are printed.

    Registered in every process of a session.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Deselect nightly cells, then let pytest select by ``-k`` and ``-m``."""
        if not marks_name_nightly(self.config):
            self._deselect_nightly(items)
        with self._translate_keyword(items):
            return (yield)

    def _deselect_nightly(self, items: list[pytest.Item]) -> None:
        """Deselect nightly cells: an ``-m`` of the user replaces the project's "not nightly"."""
        plain: list[pytest.Item] = []
        left: list[pytest.Item] = []
        tags = get_selected_tiers(self.config)
        for item in items:
            (left if _is_nightly(item) and not _has_tag(item, tags) else plain).append(item)
        if left:
            self.config.hook.pytest_deselected(items=left)
            items[:] = plain

    @contextmanager
    def _translate_keyword(self, items: list[pytest.Item]) -> Iterator[None]:
        keyword = self.config.option.keyword
        if "@" in keyword:
            cells = [item for item in items if isinstance(item, CellItem)]
            names = {item.name for item in cells}

            def translate(word: re.Match[str]) -> str:
                # A complete cell name must not match longer names.
                return _delimit(word[0]) if word[0] in names else word[0].replace("@", _AT)

            self.config.option.keyword = re.sub(r"[^\s()]+", translate, keyword)
            for item in cells:
                item.extra_keyword_matches.add(_delimit(item.name))
        try:
            yield
        finally:
            self.config.option.keyword = keyword


def _delimit(cell: str) -> str:
    return f"{_END}{cell.replace('@', _AT)}{_END}"


def _is_nightly(item: pytest.Item) -> bool:
    return isinstance(item, CellItem) and item.get_closest_marker(registry.NIGHTLY) is not None


def _has_tag(item: pytest.Item, tags: frozenset[str]) -> bool:
    return isinstance(item, CellItem) and bool(item.case.tags & tags)


def explain_missing_arguments(config: pytest.Config) -> list[str]:
    """Explain for each command line argument without a test why there is none."""
    start = config.invocation_params.dir
    found = (_explain_missing(config, start, str(name)) for name in config.args)
    return [sentence for sentence in found if sentence]


def _explain_missing(config: pytest.Config, start: Path, name: str) -> str:
    path = start / name.partition("::")[0]
    if not path.exists():
        return f"there is no {path}{_suggest_path(start, path)}"
    if (cell := get_cell_id(name)) is None:
        return ""
    try:
        case, target = split_cell_id(cell)
        parse_targets([str(target)])
        return _explain_unselected(case, target, load_suite(path), config.stash[SELECTED])
    except ConformError as error:
        return str(error)


def _suggest_path(start: Path, path: Path) -> str:
    """Suggest existing paths for a missing one: neighbours, or suites with its name."""
    below = [each for each in start.glob("suites/**/*") if each.stem == path.stem]
    if same := sorted(str(each.relative_to(start)) for each in below if _is_suite(each)):
        return f"; did you mean {', '.join(same[:3])}?"
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    return _suggest_names(path.name, beside) or "; select cases by name with -k"


def _is_suite(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and not path.name.startswith("_"))


def _explain_unselected(
    name: str, target: Target, suite: Suite, selected: Sequence[Target] | None
) -> str:
    """Explain why a cell of a suite is not selected, and how to select it; empty if it is."""
    case = next((each for each in suite.cases if each.name == name), None)
    if case is None:
        near = _suggest_names(name, [each.name for each in suite.cases])
        return f"{suite.name} has no case {name}{near}"
    if target not in registry.select_targets(case, [target]):
        return f"{name} runs on {case.targets.replace('|', ', ')} only, not on {target}"
    if target not in registry.select_targets(case, selected):
        which = "a plain run" if selected is None else "--targets"
        return f"{target} is not among the targets of {which}; select it with --targets {target}"
    if registry.is_nightly(case, target, selected):
        return f"{name}@{target} is a nightly cell; select it with -m nightly"
    return ""


def _suggest_names(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
