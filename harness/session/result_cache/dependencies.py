"""Find the source files that a cell depends on, by parsing imports.

They are the files of the harness that run cells
(:data:`harness.session.result_cache.source_tree.CORE`), the imports of the suite's module and of
the ``limitations`` and conftest.py beside it, data files beside these modules, and the package of
the target's backend with its imports. Imports are followed within the project and in editable
installs. For any other package the version of its distribution is the dependency
(:mod:`harness.session.result_cache.platform_facts`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import harness
from harness.model import registry
from harness.record.target import SEVERAL
from harness.session.result_cache import source_tree
from harness.session.result_cache.imports import ModuleImports, WantedImport, read_imports

_HARNESS = Path(harness.__file__).resolve().parent
_BACKENDS = "backends"
_LIMITATIONS = "limitations"
_CONFTEST = "conftest.py"


class Sources:
    """The source files of the cells of one session; each file is read once.

    Args:
        suites: the folders whose modules may declare cases.
        root: the root of the session; conftest.py files from here on count.
    """

    harness = _HARNESS

    def __init__(self, suites: Sequence[Path], root: Path) -> None:
        self.root = root.resolve()
        self.suites = tuple(folder.resolve() for folder in suites)
        # The first parent folder that is no package: absolute imports start there.
        self._tops = {top.parent for top in map(source_tree.find_outermost_package, self.suites)}
        self._digests: dict[Path, str] = {}
        self._parsed: dict[Path, ModuleImports] = {}
        self._located: dict[str, Path | None] = {}
        self._of_suites: dict[Path, frozenset[Path]] = {}
        self._of_backends: dict[str, frozenset[Path]] = {}
        self._looked_for: dict[frozenset[Path], frozenset[Path]] = {}
        self._watched: dict[Path, tuple[int, int]] = {}

    @functools.cached_property
    def core(self) -> frozenset[Path]:
        """The files of the harness that run cells."""
        return frozenset(
            path for path in source_tree.list_files(_HARNESS) if source_tree.is_core(path, _HARNESS)
        )

    @functools.cached_property
    def everything(self) -> frozenset[Path]:
        """All files of suites, backends and the harness' core, for a file that may import any of
        them."""
        found = set(self.core)
        for folder in (*self.suites, *self._backend_folders()):
            found.update(source_tree.list_files(source_tree.find_outermost_package(folder)))
        return frozenset(found | self._conftests(self.suites))

    def find_suite_files(self, module: Path) -> frozenset[Path]:
        """Return the dependencies of a module's cases on any target, without the core."""
        module = module.resolve()
        if module not in self._of_suites:
            beside = module.parent / _LIMITATIONS
            starts = [*source_tree.list_packages(module), module]
            starts += [beside.with_suffix(".py"), *source_tree.list_files(beside)]
            conftests = self._conftests([module])
            found = self._closure([*(path for path in starts if path.is_file()), *conftests])
            self._of_suites[module] = found
        return self._of_suites[module]

    def find_backend_files(self, name: str) -> frozenset[Path]:
        """Return the dependencies of a backend's cells for any case, without the core.

        Args:
            name: name of a backend, or of several as a target has it.

        Raises:
            UnknownTarget: no backend of that name is registered.
        """
        if name not in self._of_backends:
            found: set[Path] = set()
            for part in name.split(SEVERAL):
                where = registry.find_backend_path(part).partition(":")[0]
                for folder in self._package_of(where):
                    found.update(source_tree.list_files(folder))
            self._of_backends[name] = self._closure(sorted(found)) | found
        return self._of_backends[name]

    def find_cell_files(self, module: Path, backend: str) -> frozenset[Path]:
        """Return all files that a cell depends on."""
        return self.core | self.find_suite_files(module) | self.find_backend_files(backend)

    def belonged_to(self, gone: Path, files: frozenset[Path]) -> bool:
        """Return whether a removed file would be a dependency if it still existed.

        Args:
            gone: the removed file.
            files: the present dependencies, which may import the removed file, or another file in
                its place.
        """
        if gone.suffix == ".py":
            return gone.name == _CONFTEST or gone in self._looked_for_by(files)
        folders = {path.parent for path in files if path.name != _CONFTEST}
        # Data files are the other files of a package, also in subfolders that are no packages.
        package = next((each for each in gone.parents if (each / "__init__.py").is_file()), None)
        return (package or gone.parent) in folders

    def _looked_for_by(self, files: frozenset[Path]) -> frozenset[Path]:
        """Return the files that these would import if they existed."""
        if files not in self._looked_for:
            tops = {_HARNESS.parent, *self._tops}
            found: set[Path] = set()
            for path in files:
                if path.suffix != ".py":
                    continue
                found |= {path.parent / f"{_LIMITATIONS}.py", path.parent / "__init__.py"}
                for name in self._names(path, self._imports(path)):
                    for place in (top.joinpath(*name.split(".")) for top in tops):
                        found |= {place.with_name(f"{place.name}.py"), place / "__init__.py"}
            self._looked_for[files] = frozenset(found)
        return self._looked_for[files]

    def digest(self, files: Iterable[Path]) -> str:
        """Return a digest of the names and contents of some files; it is the same on every
        machine."""
        found = hashlib.sha256()
        for name, content in sorted((self.label(path), self._digest(path)) for path in files):
            found.update(f"{name}\0{content}\n".encode())
        return found.hexdigest()

    def watch(self) -> None:
        """Record the present state of all files; call it before anything imports them."""
        self._watched = {path: _state(path) for path in self.everything}

    def changed(self) -> str:
        """Return a file that has changed since :meth:`watch`; empty if none has."""
        changed = (path for path, was in self._watched.items() if _state(path) != was)
        return next(map(self.label, changed), "")

    def label(self, path: Path) -> str:
        """Return a file's name for a digest: relative to the folder that contains its package."""
        for top in (_HARNESS.parent, *self._tops, self.root):
            if path.is_relative_to(top):
                return path.relative_to(top).as_posix()
        return f"{source_tree.find_outermost_package(path).name}/{path.name}"

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            try:
                content = path.read_bytes()
            except OSError:
                content = b"cannot be read"
            if self._watched:
                self._watched.setdefault(path, _state(path))
            self._digests[path] = hashlib.sha256(content).hexdigest()
        return self._digests[path]

    def _imports(self, path: Path) -> ModuleImports:
        if path not in self._parsed:
            self._parsed[path] = read_imports(path)
        return self._parsed[path]

    def _conftests(self, places: Iterable[Path]) -> set[Path]:
        """Return the conftest.py of these folders and of their parents, up to the session's
        root."""
        found = set()
        for place in places:
            folders = [place, *place.parents] if place.is_dir() else place.parents
            for folder in folders:
                if folder.is_relative_to(self.root) or folder == self.root:
                    found.add(folder / _CONFTEST)
        return {path for path in found if path.is_file()}

    def _backend_folders(self) -> Iterator[Path]:
        yield from self._package_of(_BACKENDS)
        for name in registry.names():
            yield from self._package_of(registry.find_backend_path(name).partition(":")[0])

    def _package_of(self, module: str) -> Iterator[Path]:
        """Return the package of a backend; of one in ``backends/`` its own part and the shared
        modules."""
        top = self._locate(module.partition(".")[0], installed=True)
        names = module.split(".")[1:2]
        if top is None:
            return
        if names and top.parent == _HARNESS.parent and top.name == _BACKENDS:
            yield from (top / "__init__.py", top / names[0], top / f"{names[0]}.py")
        else:
            yield top

    def _closure(self, starts: Iterable[Path]) -> frozenset[Path]:
        """Return these files, all files that they import as far as imports are followed, and data
        files beside them."""
        found: set[Path] = set()
        left = list(starts)
        while left:
            path = left.pop()
            if path in found or path in self.core:
                continue
            found.add(path)
            if path.suffix != ".py":
                continue
            if self._owns_folder(path):
                found.update(source_tree.list_data_files(path))
            imports = self._imports(path)
            if imports.dynamic:
                return self.everything | found
            if imports.attaching:
                left += source_tree.list_files(path.parent)
            for name in self._names(path, imports):
                left += self._files(name)
        return frozenset(found)

    def _owns_folder(self, module: Path) -> bool:
        """Return whether the data files beside a module belong to it; beside a module at a root
        lies the whole project."""
        folder = module.parent
        in_package = (folder / "__init__.py").is_file()
        return module.name != _CONFTEST and (in_package or folder in self.suites)

    def _names(self, path: Path, imports: ModuleImports) -> Iterator[str]:
        """Return the absolute names of a file's imports."""
        package = source_tree.module_name(path).split(".")
        package = package if path.name == "__init__.py" else package[:-1]
        is_conftest = path.name == _CONFTEST
        for each in imports.wanted:
            base = self._absolute(each, package)
            if is_conftest and base.partition(".")[0] == _HARNESS.name:
                continue  # its own plugins select and display; modules that run cells are core
            yield base
            if "*" in each.names:
                yield f"{base}.*"
            for name in each.names:
                yield f"{base}.{name}" if base else name
        yield from (name for name in imports.plugins if name.partition(".")[0] != _HARNESS.name)

    def _absolute(self, wanted: WantedImport, package: list[str]) -> str:
        if not wanted.level:
            return wanted.module
        above = package[: len(package) - wanted.level + 1]
        return ".".join([*above, *filter(None, [wanted.module])])

    def _files(self, name: str) -> Iterator[Path]:
        """Return the files that importing a dotted name executes, as far as imports are
        followed."""
        first, *rest = name.split(".")
        place = self._locate(first)
        if place is None:
            return
        if place.is_file():
            yield place
            return
        if place == _HARNESS:
            yield from self._public(rest)
        yield from source_tree.list_package_files(place)
        for part in rest:
            if part == "*":
                yield from source_tree.list_files(place)
                return
            module, place = place / f"{part}.py", place / part
            if module.is_file() and not (place / "__init__.py").is_file():
                yield module
                return
            if not place.is_dir():
                return  # an attribute, or an extension module, which counts as data
            yield from source_tree.list_package_files(place)

    def _public(self, rest: list[str]) -> Iterator[Path]:
        """Return the module that a public name of the harness is imported from on first use."""
        names = rest[1:2] if rest[:1] == ["backend_api"] else rest[:1]
        for stub in ("__init__.pyi", "backend_api.pyi"):
            for each in self._imports(_HARNESS / stub).wanted:
                if names == ["*"] or set(names) & set(each.names):
                    yield from self._files(self._absolute(each, [_HARNESS.name]))

    def _locate(self, top: str, *, installed: bool = False) -> Path | None:
        """Return the location of a top-level package or module; None if its files are not followed.

        Args:
            top: the name.
            installed: whether a regular install also counts.
        """
        key = f"{top}/{installed}"
        if key not in self._located:
            self._located[key] = self._find(top, installed)
        return self._located[key]

    def _find(self, top: str, installed: bool) -> Path | None:
        if top == _HARNESS.name:
            return _HARNESS
        for folder in sorted(self._tops):
            owns = any(
                source_tree.find_outermost_package(suite) == folder / top for suite in self.suites
            )
            if owns or not _is_installed(folder):
                for place in (folder / top, folder / f"{top}.py"):
                    if place.is_file() or (place.is_dir() and any(place.glob("*.py"))):
                        return place
        if top in sys.stdlib_module_names:
            return None
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return None
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        places += [spec.origin] if spec is not None and spec.origin and not places else []
        found = next((Path(place).resolve() for place in places if Path(place).exists()), None)
        ours = found is not None and found.parent == _HARNESS.parent
        return found if found and (installed or ours or not _is_installed(found)) else None


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@functools.cache
def _find_installed_places() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    named = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(Path(name).resolve() for name in [*named, *_user_sites()])


def _user_sites() -> list[str]:
    return [site.getusersitepackages()] if site.ENABLE_USER_SITE else []


def _is_installed(path: Path) -> bool:
    """Return whether it is part of Python or of a distribution, whose version then identifies
    it."""
    return any(path.is_relative_to(place) for place in _find_installed_places())
