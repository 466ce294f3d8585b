"""The parts of a source tree: packages, their modules, and the data files beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Parts of the harness that no record depends on, by name: they select cells, show progress, read
# records, or serve a user's own model. The options that they pass to cells are in the cache key.
_ASIDE = (
    "checking/",
    "cli/",
    "cluster/",
    "conftest.py",
    "contract/",
    "extras/",
    "pytest_plugin/cached/",
    "pytest_plugin/durations.json",
    "pytest_plugin/durations.py",
    "pytest_plugin/item_selection.py",
    "pytest_plugin/nightly.py",
    "pytest_plugin/progress.py",
    "session/catalogue.py",
    "session/result_cache/",
)
_TEXTS = frozenset({".md", ".rst", ".pyc", ".pyo"})
_TESTS = "tests"


def is_source_file(name: str) -> bool:
    """Return whether a file is neither documentation nor a file that Python generates."""
    return Path(name).suffix not in _TEXTS


def is_core(path: Path, harness: Path) -> bool:
    """Return whether a file of the harness takes part in running a cell."""
    return not path.relative_to(harness).as_posix().startswith(_ASIDE)


def find_outermost_package(path: Path) -> Path:
    """Return the outermost package of a module or package; a module or folder outside any package
    is returned unchanged."""
    while (path.parent / "__init__.py").is_file():
        path = path.parent
    return path


def module_name(path: Path) -> str:
    """Return the dotted name by which a file is imported."""
    top = find_outermost_package(path).parent
    inner = path.parent if path.name == "__init__.py" else path.with_suffix("")
    return ".".join(inner.relative_to(top).parts)


def list_files(place: Path) -> Iterator[Path]:
    """Return the files of a package or folder, or the single file of a path, that code can import
    or read: no tests, no documentation, no hidden files."""
    if place.is_file():
        yield place
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith((".", "__pycache__")) or path.name == _TESTS:
            continue
        if path.is_dir():
            yield from list_files(path)
        elif path.suffix not in _TEXTS:
            yield path


def list_packages(module: Path) -> Iterator[Path]:
    """Return the files that importing a module executes first: its parent packages."""
    place = module.parent
    while (file := place / "__init__.py").is_file():
        yield file
        place = place.parent


def list_package_files(place: Path) -> Iterator[Path]:
    """Return the files that importing a package executes."""
    if (file := place / "__init__.py").is_file():
        yield file


def list_data_files(module: Path) -> Iterator[Path]:
    """Return the files beside a module that are not Python.

    In a package these include subfolders that are no packages, because any of its modules may read
    them.
    """
    folder = module.parent
    in_package = (folder / "__init__.py").is_file()
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__pycache__")) or path.name == _TESTS:
            continue
        if path.is_file():
            if path.suffix not in _TEXTS | {".py"}:
                yield path
        elif in_package and path.is_dir() and not any(path.glob("*.py")):
            yield from list_files(path)
