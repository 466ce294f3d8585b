"""The parts of a tree of sources: packages, their modules, and the data beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# Of the harness, what no record can hang on, by the name below it: it says which cells run, shows
# how they do, reads records, or is for somebody's own model. What it hands to cells their key has.
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
    """Whether a file can be anything but a text for people, or what Python made of another."""
    return Path(name).suffix not in _TEXTS


def is_core(path: Path, harness: Path) -> bool:
    """Whether a file of the harness takes part in running a cell."""
    return not path.relative_to(harness).as_posix().startswith(_ASIDE)


def find_outermost_package(path: Path) -> Path:
    """The package that a module or package belongs to, as far up as there are packages; a module
    that is in none, and a folder that is none, stays what it is."""
    while (path.parent / "__init__.py").is_file():
        path = path.parent
    return path


def module_name(path: Path) -> str:
    """The dotted name that a file is imported by."""
    top = find_outermost_package(path).parent
    inner = path.parent if path.name == "__init__.py" else path.with_suffix("")
    return ".".join(inner.relative_to(top).parts)


def list_files(place: Path) -> Iterator[Path]:
    """The files of a package or a folder, or the one that a path names, that code can import or
    read: no tests, no texts for people, nothing that is hidden."""
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
    """What importing a module executes before it: the packages that it is in."""
    place = module.parent
    while (file := place / "__init__.py").is_file():
        yield file
        place = place.parent


def list_package_files(place: Path) -> Iterator[Path]:
    """What importing a package executes."""
    if (file := place / "__init__.py").is_file():
        yield file


def list_data_files(module: Path) -> Iterator[Path]:
    """What lies beside a module and is no Python; in a package also in folders that are none, as
    it may be read by any module there."""
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
