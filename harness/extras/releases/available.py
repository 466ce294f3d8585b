"""Which releases of ExecuTorch can be installed: from the package index, or wheels in a folder."""

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
from harness.extras.releases.installer import command, failure
from harness.vendors.versions import PACKAGE, installed

HERE = "here"
"""Stands for what is installed already."""


@dataclass(frozen=True)
class Release:
    """One to run with.

    Attributes:
        version: as its wheel spells it; :data:`HERE` for the environment that asks.
        wheel: the file of it; None where the index has it.
    """

    version: str
    wheel: Path | None = None

    @property
    def name(self) -> str:
        """What reports call it: its version.

        Raises:
            ReleaseError: it is the installed one, and none is.
        """
        if self.version != HERE:
            return self.version
        if not installed():
            raise ReleaseError(f"no {PACKAGE} is installed in {sys.prefix}")
        return installed()

    @property
    def requirement(self) -> str:
        """What the installer is asked for."""
        return f"{PACKAGE}=={self.version}" if self.wheel is None else str(self.wheel.resolve())


def named(text: str, wheels: Path | None = None) -> Release:
    """The release that a user means: a version, the path of a wheel, or ``here``.

    Args:
        text: what was typed.
        wheels: a folder that has its wheel; None where the index is asked.

    Raises:
        ReleaseError: it is none of these, or the folder has no such wheel.
    """
    if text == HERE:
        return Release(HERE)
    if text.endswith(".whl"):
        path = Path(text)
        if not path.is_file():
            raise ReleaseError(f"there is no wheel {path}")
        return _of_wheel(path)
    try:
        version = str(Version(text))
    except InvalidVersion as error:
        raise ReleaseError(
            f"{text!r} is no release; give a version such as 1.4.1, a wheel, or {HERE!r}"
        ) from error
    if wheels is None:
        return Release(version)
    found = in_folder(wheels)
    for release in found:
        if release.version == version or Version(release.version).public == version:
            return release
    there = ", ".join(release.version for release in found)
    raise ReleaseError(f"no wheel of {PACKAGE} {version} for this Python in {wheels}: {there}")


def between(good: Release, bad: Release, wheels: Path | None = None) -> list[Release]:
    """The releases from one to another, both among them, in the order of their versions; final
    ones alone where the index is asked.

    Raises:
        ReleaseError: there is nothing to ask, or the two are not in order.
    """
    first, last = Version(good.name), Version(bad.name)
    if first >= last:
        raise ReleaseError(
            f"{good.name} is not before {bad.name}: --good is the older one, which is what "
            f"the other is held against, whichever of the two is wrong"
        )
    others = [Release(text) for text in in_index()] if wheels is None else in_folder(wheels)
    inside = [one for one in others if first < Version(one.version) < last]
    if wheels is None:
        inside = [one for one in inside if not Version(one.version).is_prerelease]
    return [good, *sorted(inside, key=lambda one: Version(one.version)), bad]


def in_folder(folder: Path) -> list[Release]:
    """The releases that have a wheel for this Python and machine in a folder, oldest first.

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
            found.append(_of_wheel(path))
    if not found:
        raise ReleaseError(f"no wheel of {PACKAGE} for this Python and machine in {folder}")
    return sorted(found, key=lambda one: Version(one.version))


def in_index() -> list[str]:
    """The versions that the package index has for this Python and machine, oldest first.

    Raises:
        ReleaseError: it cannot be asked.
    """
    asked = command("index", "versions", PACKAGE)
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ReleaseError(f"which releases there are cannot be asked: {failure(ended.stderr)}")
    return sorted(_listed(ended.stdout.splitlines()), key=Version)


def _listed(lines: Sequence[str]) -> list[str]:
    for line in lines:
        head, _, rest = line.partition(":")
        if head.strip() == "Available versions":
            return [text for text in re.split(r"[,\s]+", rest) if text]
    return []


def _of_wheel(path: Path) -> Release:
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise ReleaseError(f"{path.name} is not named as a wheel is: {error}") from error
    if name != canonicalize_name(PACKAGE):
        raise ReleaseError(f"{path.name} is a wheel of {name}, not of {PACKAGE}")
    return Release(str(version), path)
