"""An environment for a release: what is installed here, with another ExecuTorch in its place.

Its ``site-packages`` has a link for each package of this environment, torch among them, but for
ExecuTorch and what the release requires in another version; only these are installed. A path
entry behind its own would not do: ``executorch`` is a namespace package, and a module that the
release does not have would be found in the other.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.cache_folders import cache_folder
from harness.errors import ReleaseError
from harness.extras.releases.available import HERE, Release
from harness.extras.releases.installer import failure, install
from harness.vendors.versions import PACKAGE

Say = Callable[[str], None]
_ROUNDS = 10  # of packages that require others
# Installers, and what changes a Python as it starts; setuptools is linked, torch compiles with it.
_NOT_LINKED = {"__pycache__", "pip", "wheel", "distutils"}


def python(release: Release, say: Say = print) -> Path:
    """The interpreter of the release's environment, which is made where it is not there yet.

    Args:
        release: the one that it has.
        say: is told what takes long.

    Raises:
        ReleaseError: it cannot be installed.
    """
    if release.version == HERE:
        return Path(sys.executable)
    place = folder() / f"{release.version}-{_digest(release)}"
    if not place.exists():
        say(f"making an environment with {PACKAGE} {release.version}: {place}")
        _make(release, place)
    return place / "bin" / "python"


def folder() -> Path:
    """Where environments are kept, one a release and a state of this environment; none of them is
    needed by another, and each may be deleted."""
    return cache_folder("releases")


def _make(release: Release, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # Complete or not there: two that make the same one at a time do not see half of it.
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as made:
        draft = Path(made) / "environment"
        venv.EnvBuilder(symlinks=True).create(draft)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = draft / "lib" / version / "site-packages"
        _Linked(site).replace(release)
        with contextlib.suppress(FileExistsError, OSError):
            draft.rename(place)
        if not place.exists():
            raise ReleaseError(f"cannot write {place}; free some space, or mend its permissions")


@dataclass
class _Linked:
    """A folder of packages, most of which are links to this environment's."""

    site: Path
    origin: dict[str, Path] = field(default_factory=dict)

    def replace(self, release: Release) -> None:
        """Link what is here and install the release with what it requires otherwise."""
        for entry in _entries():
            self.origin.setdefault(entry.name, entry)
        for name, entry in self.origin.items():
            (self.site / name).symlink_to(entry)
        wanted = {PACKAGE: release.requirement}
        done: set[str] = set()
        for _ in range(_ROUNDS):
            for name in wanted:
                self._drop(name)
            self._install(list(wanted.values()))
            done |= set(wanted)
            wanted = {name: text for name, text in self._unmet(done).items() if name not in done}
            if not wanted:
                return
        raise ReleaseError(
            f"{PACKAGE} {release.version} requires packages without an end: {wanted}"
        )

    def _install(self, requirements: list[str]) -> None:
        asked = install(requirements, str(self.site))
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise ReleaseError(f"cannot install {' '.join(requirements)}: {failure(ended.stderr)}")

    def _drop(self, name: str) -> None:
        """Take out the links of a distribution that is about to be installed."""
        try:
            tops = _tops(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            return
        shared = {top for top in tops if top in self.origin} & _shared()
        if shared:
            raise ReleaseError(
                f"{name} would have to be replaced, and {', '.join(sorted(shared))} is of other "
                f"packages as well; make an environment of its own for this release"
            )
        for top in tops:
            if (self.site / top).is_symlink():
                (self.site / top).unlink()

    def _unmet(self, names: Iterable[str]) -> dict[str, str]:
        """What some distributions require and is not here in that version, by its name."""
        found: dict[str, importlib.metadata.Distribution] = {
            str(canonicalize_name(each.name)): each
            for each in importlib.metadata.distributions(path=[str(self.site)])
        }
        unmet: dict[str, str] = {}
        for name in names:
            for text in found[name].requires or [] if name in found else ():
                wanted = Requirement(text)
                if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                    continue
                there = found.get(canonicalize_name(wanted.name))
                if there is None or not wanted.specifier.contains(there.version, prereleases=True):
                    unmet[canonicalize_name(wanted.name)] = f"{wanted.name}{wanted.specifier}"
        return unmet


def _entries() -> list[Path]:
    """What lies directly in this environment's folders of packages."""
    paths = dict.fromkeys(
        Path(text).resolve()
        for text in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path)
        if Path(text).name in ("site-packages", "dist-packages") and Path(text).is_dir()
    )
    return [
        entry.resolve() if entry.is_symlink() else entry
        for path in paths
        for entry in sorted(path.iterdir())
        if entry.name.partition("-")[0] not in _NOT_LINKED
    ]


def _tops(distribution: importlib.metadata.Distribution) -> set[str]:
    """What of a distribution lies directly in the folder of packages."""
    parts = (file.parts for file in distribution.files or ())
    return {each[0] for each in parts if each and each[0] not in ("..", "__pycache__")}


def _shared() -> set[str]:
    """What lies there and has files of several distributions."""
    owners = Counter(
        top
        for name in {each.name for each in importlib.metadata.distributions()}
        for top in _tops(importlib.metadata.distribution(name))
    )
    return {top for top, number in owners.items() if number > 1}


def _digest(release: Release) -> str:
    """Of everything that the environment is made of."""
    parts = sorted(f"{each.name}=={each.version}" for each in importlib.metadata.distributions())
    parts += [sys.version, sys.executable, *sorted(_NOT_LINKED)]
    if release.wheel is not None:
        parts.append(hashlib.sha256(release.wheel.read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def kept() -> set[str]:
    """The releases that have an environment."""
    if not folder().is_dir():
        return set()
    return {path.name.rpartition("-")[0] for path in folder().iterdir() if path.is_dir()}


def forget() -> int:
    """Delete all environments and return how many there were."""
    found = [path for path in folder().glob("*") if path.is_dir()] if folder().is_dir() else []
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return len(found)


def of_process() -> dict[str, str]:
    """The environment variables of a process in another one: none that name this one."""
    return {name: text for name, text in os.environ.items() if name not in _OF_THIS}


_OF_THIS = {"VIRTUAL_ENV", "PYTHONHOME", "__PYVENV_LAUNCHER__"}
