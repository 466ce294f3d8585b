"""Releases of ExecuTorch, and ranges of them. Imports no torch.

A release counts by its numbers alone: what is built of a main branch that calls itself
``1.6.0a0+gabc`` has what 1.6.0 will have, as far as anybody can tell.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Sequence
from importlib.util import find_spec

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from harness.errors import UsageError

PACKAGE = "executorch"
OURS = "executorch-conform"


@functools.cache
def installed_version(package: str = PACKAGE) -> str:
    """The version of a package that is installed; empty where it is not."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def describe_installed(package: str = PACKAGE) -> str:
    """A package and its version, for a sentence: ``executorch 1.5.1``."""
    return f"{package} {installed_version(package) or '(not installed)'}"


def fingerprint_distribution(distribution: importlib.metadata.Distribution) -> str:
    """What tells one installation of a package from another: its name, version, and a digest of
    what of it was installed as its RECORD has it, so that a build of the same version from other
    sources differs.

    What lies outside of the packages' folder, such as scripts, which name the place of the
    environment, is left out.
    """
    digest = hashlib.sha256()
    for line in sorted(filter(_is_content, (distribution.read_text("RECORD") or "").splitlines())):
        digest.update(line.encode() + b"\n")
    return f"{' '.join(_name_and_version(distribution))} {digest.hexdigest()}"


def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str]:
    """From the first lines, where they say: all of it is parsed as an e-mail else."""
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
    """Whether what is installed has a module; nothing of it but its packages is imported."""
    try:
        return find_spec(module) is not None
    except ImportError:  # nor its package
        return False


def release_numbers(release: str) -> tuple[int, ...]:
    """What releases are ordered by: ``1.6.0.dev20261101`` and ``1.6`` are both 1.6.

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
    """Whether a release is in a range.

    Args:
        since: the first that is; empty for every one before ``until``.
        until: the first after it that is not; empty for every one from ``since`` on.
        release: the one that is asked for; empty where none is known, which is within all.
    """
    if not release:
        return True
    place = release_numbers(release)
    return not (since and place < release_numbers(since)) and not (
        until and place >= release_numbers(until)
    )


def is_installed_within(since: str = "", until: str = "") -> bool:
    """Whether the installed release is in a range, as :func:`is_within` has it."""
    return is_within(since, until, installed_version())


def is_verified_release(read: Sequence[str], package: str = PACKAGE) -> bool:
    """Whether the installed release of a package is among those read, or none is installed. What
    is built on the way to a release is not that release."""
    there = installed_version(package)
    return not there or (
        release_numbers(there) in map(release_numbers, read) and not Version(there).is_prerelease
    )


def describe_unverified(read: Sequence[str], what: str) -> str:
    """A reservation where what we know of a release was read from others; empty where it was not.

    Args:
        read: the releases that were.
        what: was read of them.
    """
    if is_verified_release(read):
        return ""
    return f"{what} was read for {PACKAGE} {', '.join(read)}, not for {installed_version()}"


def describe_range(since: str, until: str) -> str:
    """A range in words; empty for all releases."""
    if since and until:
        return f"{since} until before {until}"
    if since:
        return f"since {since}"
    return f"before {until}" if until else ""


@functools.cache
def oldest_supported() -> str:
    """The oldest release that this project's own metadata admits; empty where it names none."""
    try:
        wanted = importlib.metadata.requires(OURS) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    for one in map(Requirement, wanted):
        if one.name == PACKAGE:
            least = [each.version for each in one.specifier if each.operator in (">=", "==", "~=")]
            return min(least, key=release_numbers, default="")
    return ""
