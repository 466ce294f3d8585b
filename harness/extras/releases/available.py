"""Lists the releases of ExecuTorch that can be installed: from the package index or a folder of
wheels.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from harness.errors import ReleaseError
from harness.extras.releases.installer import format_failure, pip_command
from harness.vendors.versions import PACKAGE, installed_version

HERE = "here"
"""Stands for the installed release."""


@dataclass(frozen=True)
class Release:
    """A release to run.

    Attributes:
        version: as its wheel spells it; :data:`HERE` for this environment.
        wheel: its wheel; None for a release of the package index.
    """

    version: str
    wheel: Path | None = None

    @property
    def name(self) -> str:
        """Its version, as reports name it.

        Raises:
            ReleaseError: it is the installed release, and none is installed.
        """
        if self.version != HERE:
            return self.version
        if not installed_version():
            raise ReleaseError(f"no {PACKAGE} is installed in {sys.prefix}")
        return installed_version()

    @property
    def requirement(self) -> str:
        """The requirement to install."""
        return f"{PACKAGE}=={self.version}" if self.wheel is None else str(self.wheel.resolve())


def parse_release(text: str, wheels: Path | None = None) -> Release:
    """Parse a version, the path of a wheel, or ``here``.

    Args:
        text: the text.
        wheels: a folder with its wheel; None for the package index.

    Raises:
        ReleaseError: it is none of these, or the folder has no such wheel.
    """
    if text == HERE:
        return Release(HERE)
    if text.endswith(".whl"):
        path = Path(text)
        if not path.is_file():
            raise ReleaseError(f"there is no wheel {path}")
        return _release_of_wheel(path)
    try:
        version = str(Version(text))
    except InvalidVersion as error:
        raise ReleaseError(
            f"{text!r} is not a release; give a version such as 1.4.1, a wheel, or {HERE!r}"
        ) from error
    if wheels is None:
        return Release(version)
    found = list_wheels(wheels)
    for release in found:
        if release.version == version or Version(release.version).public == version:
            return release
    there = ", ".join(release.version for release in found)
    raise ReleaseError(f"no wheel of {PACKAGE} {version} for this Python in {wheels}: {there}")


def list_between(good: Release, bad: Release, wheels: Path | None = None) -> list[Release]:
    """Return the releases from one to another, both included, in order of their versions.

    Pre-releases are included only with a folder of wheels.

    Raises:
        ReleaseError: the package index is not available, or the two are not in order.
    """
    first, last = Version(good.name), Version(bad.name)
    if first >= last:
        raise ReleaseError(
            f"{good.name} is not before {bad.name}: --good must be the older release, whichever "
            f"of the two is wrong"
        )
    others = (
        [Release(text) for text in list_index_versions()] if wheels is None else list_wheels(wheels)
    )
    inside = [one for one in others if first < Version(one.version) < last]
    if wheels is None:
        inside = [one for one in inside if not Version(one.version).is_prerelease]
    return [good, *sorted(inside, key=lambda one: Version(one.version)), bad]


def list_wheels(folder: Path) -> list[Release]:
    """Return the releases with a wheel for this Python and machine in a folder, oldest first.

    Raises:
        ReleaseError: there is none.
    """
    fitting = set(sys_tags())
    found = []
    for path in sorted(folder.glob("*.whl")):
        try:
            name, _, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if name == canonicalize_name(PACKAGE) and tags & fitting:
            found.append(_release_of_wheel(path))
    if not found:
        raise ReleaseError(f"no wheel of {PACKAGE} for this Python and machine in {folder}")
    return sorted(found, key=lambda one: Version(one.version))


def list_index_versions() -> list[str]:
    """Return the versions in the package index for this Python and machine, oldest first.

    Raises:
        ReleaseError: the package index cannot be read.
    """
    asked = pip_command("index", "versions", PACKAGE)
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ReleaseError(f"cannot list releases: {format_failure(ended.stderr)}")
    return sorted(_parse_versions(ended.stdout.splitlines()), key=Version)


def _parse_versions(lines: Sequence[str]) -> list[str]:
    for line in lines:
        head, _, rest = line.partition(":")
        if head.strip() == "Available versions":
            return [text for text in re.split(r"[,\s]+", rest) if text]
    return []


def _release_of_wheel(path: Path) -> Release:
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise ReleaseError(f"{path.name} is not a valid name of a wheel: {error}") from error
    if name != canonicalize_name(PACKAGE):
        raise ReleaseError(f"{path.name} is a wheel of {name}, not of {PACKAGE}")
    return Release(str(version), path)
