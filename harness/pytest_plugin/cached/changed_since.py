"""``--changed-since REV``: only the cells that what changed since a revision can affect."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.model import registry
from harness.pytest_plugin.items import CellItem
from harness.record.revision import run_git
from harness.session.result_cache import source_tree
from harness.session.result_cache.dependencies import Sources

# What every cell is run by, wherever it lies; a conftest.py may do anything.
_OF_ALL = frozenset({"conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini"})

_GIT_SECONDS = 60.0  # it goes through the whole work tree

CHANGED: pytest.StashKey[OnlyChanged] = pytest.StashKey()
CHANGED_INPUT = "conform_changed"
"""Key under which workers are told what changed: one that starts later sees the same."""


class OnlyChanged:
    """In every process of a session: leaves out what nothing that changed can affect.

    Args:
        sources: what cells hang on.
        files: those that changed, were added or removed, absolute.
    """

    def __init__(self, sources: Sources, files: Sequence[Path]) -> None:
        self.files = frozenset(files)
        self._sources = sources
        self._all = any(path.name in _OF_ALL for path in files) or self._hits(sources.core)
        self._backends: dict[str, bool] = {}
        self._modules: dict[Path, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Before pytest selects by ``-k`` and ``-m``."""
        left: list[pytest.Item] = []
        kept: list[pytest.Item] = []
        for item in items:
            backend = item.target.backend if isinstance(item, CellItem) else None
            (kept if self.touches(item.path, backend) else left).append(item)
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def touches(self, module: Path, backend: str | None) -> bool:
        """Whether what changed can affect tests of a module.

        Args:
            module: the file of the test.
            backend: of the cell's target; None for a test that is no cell, which may use any.
        """
        if self._all:
            return True
        module = module.resolve()
        if module not in self._modules:
            self._modules[module] = self._hits(self._sources.find_suite_files(module))
        backends = registry.names() if backend is None else [backend]
        return self._modules[module] or any(map(self._touches_backend, backends))

    def _touches_backend(self, name: str) -> bool:
        if name not in self._backends:
            self._backends[name] = self._hits(self._sources.find_backend_files(name))
        return self._backends[name]

    def _hits(self, files: frozenset[Path]) -> bool:
        return not self.files.isdisjoint(files) or any(
            self._sources.belonged_to(path, files) for path in self._gone
        )

    @functools.cached_property
    def _gone(self) -> list[Path]:
        return [path for path in self.files if not path.exists()]


def changed_since(root: Path, revision: str) -> list[Path]:
    """The files that differ from a revision in the checkout that a folder is in: committed, staged,
    in the work tree, removed, and those that git does not know yet.

    Raises:
        UsageError: the folder is in no checkout, or git knows no such revision.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise UsageError(f"--changed-since: {root} is in no checkout of git, or there is no git")
    if _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
        raise UsageError(f"--changed-since: git knows no revision {revision!r} in {root}")
    place = Path(top.strip())
    # A renamed file is one that is gone and one that is new.
    differing = _git(place, "diff", "--name-only", "--no-renames", "-z", f"{revision}^{{commit}}")
    unknown = _git(place, "ls-files", "--others", "--exclude-standard", "-z")
    if differing is None or unknown is None:
        raise UsageError(f"--changed-since: git cannot compare {root} with {revision}")
    names = [*differing.split("\0"), *unknown.split("\0")]
    return [
        place.resolve() / name
        for name in dict.fromkeys(names)
        if name and source_tree.is_source_file(name)
    ]


def _git(folder: Path, *arguments: str) -> str | None:
    answer = run_git(folder, *arguments, seconds=_GIT_SECONDS)
    return None if answer is None else answer.decode("utf-8", "surrogateescape")
