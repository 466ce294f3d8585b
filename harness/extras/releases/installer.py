"""What installs packages here: this environment's pip, or uv where it has none."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys

from harness.errors import ReleaseError


def command(*arguments: str) -> list[str]:
    """A command of pip, quiet about itself.

    Raises:
        ReleaseError: there is none.
    """
    if not _has_pip():
        raise ReleaseError(
            "this environment has no pip, which makes those of releases; python -m ensurepip"
        )
    quiet = ("--disable-pip-version-check", "--no-input")
    return [sys.executable, "-m", "pip", *arguments, *quiet]


def install(requirements: list[str], into: str) -> list[str]:
    """The command that installs packages into a folder, and nothing that they require.

    Raises:
        ReleaseError: there is neither pip nor uv.
    """
    if not _has_pip() and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable, "--no-deps", "--target", into,
                *requirements]  # fmt: skip
    return command("install", "--quiet", "--no-deps", "--target", into, *requirements)


def _has_pip() -> bool:
    # Not by looking for the module: setuptools listens for that, and gives distutils back.
    return any(importlib.metadata.distributions(name="pip"))


def failure(stderr: str) -> str:
    """What an installer said was wrong, in a line."""
    lines = [line for line in stderr.splitlines() if line.startswith(("ERROR:", "error:"))]
    said = lines or stderr.strip().splitlines()[-1:]
    return "; ".join(line.partition(":")[2].strip() or line for line in said) or "it said nothing"
