"""Creates an environment for a release: the packages of this environment with another ExecuTorch.

Its ``site-packages`` has a link to each package of this environment, including torch, except
ExecuTorch and packages that the release requires in another version; only these are installed. An
extra path entry would not work: ``executorch`` is a namespace package, and a module that the
release lacks would be found in the other release.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
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
from harness.extras.releases.installer import format_failure, install_command
from harness.vendors.versions import PACKAGE

ProgressCallback = Callable[[str], None]
_MAX_ROUNDS = 10  # rounds of installing requirements of requirements
# Installers, and packages that run code at startup. setuptools is linked: torch compiles with it.
_NOT_LINKED = {"__pycache__", "pip", "wheel", "distutils"}


def ensure_interpreter(release: Release, on_progress: ProgressCallback = print) -> Path:
    """Return the interpreter of a release's environment, which is created if it does not exist.

    Args:
        release: the release.
        on_progress: called with a line of text for each step.

    Raises:
        ReleaseError: it cannot be installed.
    """
    if release.version == HERE:
        return Path(sys.executable)
    place = environments_folder() / f"{release.version}-{_compute_digest(release)}"
    if not place.exists():
        on_progress(f"creating an environment with {PACKAGE} {release.version}: {place}")
        _make(release, place)
    return place / "bin" / "python"


def environments_folder() -> Path:
    """The folder of environments, one for each release and state of this environment.

    Environments are independent; each may be deleted.
    """
    return cache_folder("releases")


def _make(release: Release, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # Created under another name, then renamed: concurrent processes never see half of one.
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".making-") as made:
        draft = Path(made) / "environment"
        venv.EnvBuilder(symlinks=True).create(draft)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = draft / "lib" / version / "site-packages"
        _LinkedPackages(site).replace(release)
        with contextlib.suppress(FileExistsError, OSError):
            draft.rename(place)
        if not place.exists():
            raise ReleaseError(f"cannot write {place}; check free space and permissions")


@dataclass
class _LinkedPackages:
    """A site-packages folder whose entries are mostly links to this environment's."""

    site: Path
    origin: dict[str, Path] = field(default_factory=dict)

    def replace(self, release: Release) -> None:
        """Link the packages of this environment; install the release and its differing
        requirements.
        """
        for entry in _list_entries():
            self.origin.setdefault(entry.name, entry)
        for name, entry in self.origin.items():
            (self.site / name).symlink_to(entry)
        wanted = {PACKAGE: release.requirement}
        done: set[str] = set()
        for _ in range(_MAX_ROUNDS):
            for name in wanted:
                self._remove_links(name)
            self._install(list(wanted.values()))
            done |= set(wanted)
            wanted = {
                name: text
                for name, text in self._find_unmet_requirements(done).items()
                if name not in done
            }
            if not wanted:
                return
        raise ReleaseError(
            f"{PACKAGE} {release.version} needs more than {_MAX_ROUNDS} rounds of requirements: "
            f"{wanted}"
        )

    def _install(self, requirements: list[str]) -> None:
        asked = install_command(requirements, str(self.site))
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise ReleaseError(
                f"cannot install {' '.join(requirements)}: {format_failure(ended.stderr)}"
            )

    def _remove_links(self, name: str) -> None:
        """Remove the links of a distribution that is about to be installed."""
        try:
            tops = _top_level_entries(importlib.metadata.distribution(name))
        except importlib.metadata.PackageNotFoundError:
            return
        shared = {top for top in tops if top in self.origin} & _find_shared_entries()
        if shared:
            raise ReleaseError(
                f"{name} must be replaced, but {', '.join(sorted(shared))} belongs to other "
                f"packages as well; create a separate environment for this release"
            )
        for top in tops:
            if (self.site / top).is_symlink():
                (self.site / top).unlink()

    def _find_unmet_requirements(self, names: Iterable[str]) -> dict[str, str]:
        """Return the requirements of some distributions that are not installed in a matching
        version.
        """
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


def _list_entries() -> list[Path]:
    """Return the entries of this environment's site-packages folders."""
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


def _top_level_entries(distribution: importlib.metadata.Distribution) -> set[str]:
    """Return the entries of a distribution directly in site-packages."""
    parts = (file.parts for file in distribution.files or ())
    return {each[0] for each in parts if each and each[0] not in ("..", "__pycache__")}


def _find_shared_entries() -> set[str]:
    """Return the entries with files of several distributions."""
    owners = Counter(
        top
        for name in {each.name for each in importlib.metadata.distributions()}
        for top in _top_level_entries(importlib.metadata.distribution(name))
    )
    return {top for top, number in owners.items() if number > 1}


def _compute_digest(release: Release) -> str:
    """Return a digest of everything that the environment is made of."""
    parts = sorted(f"{each.name}=={each.version}" for each in importlib.metadata.distributions())
    parts += [sys.version, sys.executable, *sorted(_NOT_LINKED)]
    if release.wheel is not None:
        parts.append(hashlib.sha256(release.wheel.read_bytes()).hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def list_environments() -> set[str]:
    """Return the releases that have an environment."""
    if not environments_folder().is_dir():
        return set()
    return {
        path.name.rpartition("-")[0] for path in environments_folder().iterdir() if path.is_dir()
    }


def process_environment() -> dict[str, str]:
    """Return environment variables for a process of another environment."""
    return {name: text for name, text in os.environ.items() if name not in _OF_THIS}


_OF_THIS = {"VIRTUAL_ENV", "PYTHONHOME", "__PYVENV_LAUNCHER__"}
