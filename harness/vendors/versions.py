"""Releases of ExecuTorch, and ranges of them. Imports no torch.

Only the numbers of a release count: a build of the main branch with version ``1.6.0a0+gabc`` is
treated as 1.6.0.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Sequence
from importlib.util import find_spec

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from harness.errors import UsageError

PACKAGE = "executorch"
OURS = "executorch-conform"


@functools.cache
def installed_version(package: str = PACKAGE) -> str:
    """Return the version of an installed package; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def describe_missing_packages(requirements: Sequence[str]) -> str:
    """Return which requirements no installed package meets, and how to install them; else empty.

    Args:
        requirements: such as ``silero-vad==6.2.3``.

    Raises:
        UsageError: one is no requirement.
    """
    missing, notes = [], []
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement as error:
            raise UsageError(f"{text!r} is no requirement; write silero-vad==6.2.3") from error
        installed = installed_version(wanted.name)
        if not installed or not wanted.specifier.contains(installed, prereleases=True):
            missing.append(text)
            notes.append(f"{text} ({installed or 'none'} is installed)")
    if not missing:
        return ""
    return f"it requires {', '.join(notes)}: pip install --no-deps {' '.join(missing)}"


def describe_installed(package: str = PACKAGE) -> str:
    """Return a package and its version as text: ``executorch 1.5.1``."""
    return f"{package} {installed_version(package) or '(not installed)'}"


def fingerprint_distribution(distribution: importlib.metadata.Distribution) -> str:
    """Identify an installation of a package by name, version, and a digest of its RECORD.

    A build of the same version from other sources differs. Files outside the packages' folder, such
    as scripts, are left out, because they contain the path of the environment.
    """
    digest = hashlib.sha256()
    for line in sorted(filter(_is_content, (distribution.read_text("RECORD") or "").splitlines())):
        digest.update(line.encode() + b"\n")
    return f"{' '.join(_name_and_version(distribution))} {digest.hexdigest()}"


def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str]:
    """Read name and version from the first lines if they are there; parsing everything is slow."""
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    said = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    if {"Name", "Version"} <= said.keys():
        return said["Name"], said["Version"]
    metadata = distribution.metadata
    return metadata["Name"] or "", metadata["Version"]


def _is_content(line: str) -> bool:
    name = line.partition(",")[0]
    beside = name.rpartition("/")[2] in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    return not (name.startswith(("..", "/")) or "__pycache__" in name or beside)


@functools.cache
def has_module(module: str) -> bool:
    """Return whether a module is installed; only its parent packages are imported."""
    try:
        return find_spec(module) is not None
    except ImportError:  # nor its package
        return False


def release_numbers(release: str) -> tuple[int, ...]:
    """Return a release's sort key: ``1.6.0.dev20261101`` and ``1.6`` are both 1.6.

    Raises:
        UsageError: it is no version.
    """
    try:
        found = list(Version(release).release)
    except InvalidVersion as error:
        raise UsageError(f"{release!r} is no version; give one such as 1.5.1") from error
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def is_within(since: str, until: str, release: str) -> bool:
    """Return whether a release is in a range.

    Args:
        since: the first release of the range; empty for no lower end.
        until: the first release after the range; empty for no upper end.
        release: the release; empty if unknown, which every range includes.
    """
    if not release:
        return True
    place = release_numbers(release)
    return not (since and place < release_numbers(since)) and not (
        until and place >= release_numbers(until)
    )


def is_installed_within(since: str = "", until: str = "") -> bool:
    """Return whether the installed release is in a range, as in :func:`is_within`."""
    return is_within(since, until, installed_version())


def is_verified_release(read: Sequence[str], package: str = PACKAGE) -> bool:
    """Return whether the installed release of a package is among the checked ones, or none is
    installed. A development build of a release is not that release."""
    there = installed_version(package)
    return not there or (
        release_numbers(there) in map(release_numbers, read) and not Version(there).is_prerelease
    )


def describe_unverified(read: Sequence[str], what: str) -> str:
    """Return a note if facts were checked for other releases only; otherwise an empty text.

    Args:
        read: the checked releases.
        what: the facts.
    """
    if is_verified_release(read):
        return ""
    return f"{what} was read for {PACKAGE} {', '.join(read)}, not for {installed_version()}"


def describe_range(since: str, until: str) -> str:
    """Return a range in words; empty for all releases."""
    if since and until:
        return f"{since} until before {until}"
    if since:
        return f"since {since}"
    return f"before {until}" if until else ""


@functools.cache
def oldest_supported() -> str:
    """Return the oldest release that this project's metadata admits; empty if it names none."""
    try:
        wanted = importlib.metadata.requires(OURS) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for one in map(Requirement, wanted):
        if one.name == PACKAGE:
            least = [each.version for each in one.specifier if each.operator in (">=", "==", "~=")]
            return min(least, key=release_numbers, default="")
    return ""
