"""``--changed-since REV``: selects cells affected by changes since a revision."""

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

# Files of these names affect all cells.
_AFFECTS_ALL = frozenset({"conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini"})

_GIT_SECONDS = 60.0  # git reads the whole work tree

CHANGED: pytest.StashKey[ChangedSelection] = pytest.StashKey()
CHANGED_INPUT = "conform_changed"
"""Key of the changed files in the input of workers, so that all workers use the same list."""


class ChangedSelection:
    """Deselects tests that changed files cannot affect; registered in every process of a session.

    Args:
        sources: dependencies of cells.
        files: absolute paths of changed, added and removed files.
    """

    def __init__(self, sources: Sources, files: Sequence[Path]) -> None:
        self.files = frozenset(files)
        self._sources = sources
        self._all = any(path.name in _AFFECTS_ALL for path in files) or self._contains_change(
            sources.core
        )
        self._backends: dict[str, bool] = {}
        self._modules: dict[Path, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect unaffected tests, before pytest selects by ``-k`` and ``-m``."""
        left: list[pytest.Item] = []
        kept: list[pytest.Item] = []
        for item in items:
            backend = item.target.backend if isinstance(item, CellItem) else None
            (kept if self.is_affected(item.path, backend) else left).append(item)
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept

    def is_affected(self, module: Path, backend: str | None) -> bool:
        """Whether the changes can affect tests of a module.

        Args:
            module: file of the test.
            backend: backend of the cell; None for other tests, which may use any backend.
        """
        if self._all:
            return True
        module = module.resolve()
        if module not in self._modules:
            self._modules[module] = self._contains_change(self._sources.find_suite_files(module))
        backends = registry.names() if backend is None else [backend]
        return self._modules[module] or any(map(self._is_backend_affected, backends))

    def _is_backend_affected(self, name: str) -> bool:
        if name not in self._backends:
            self._backends[name] = self._contains_change(self._sources.find_backend_files(name))
        return self._backends[name]

    def _contains_change(self, files: frozenset[Path]) -> bool:
        return not self.files.isdisjoint(files) or any(
            self._sources.belonged_to(path, files) for path in self._removed
        )

    @functools.cached_property
    def _removed(self) -> list[Path]:
        return [path for path in self.files if not path.exists()]


def list_changed_files(root: Path, revision: str) -> list[Path]:
    """List files of a checkout that differ from a revision, removed and untracked files included.

    Args:
        root: a folder in the checkout.
        revision: a git revision.

    Raises:
        UsageError: the folder is not in a checkout, or the revision does not exist.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise UsageError(f"--changed-since: {root} is in no checkout of git, or there is no git")
    if _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
        raise UsageError(f"--changed-since: git knows no revision {revision!r} in {root}")
    place = Path(top.strip())
    # --no-renames: list a renamed file as removed and added.
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
