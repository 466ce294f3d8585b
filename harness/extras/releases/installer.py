"""Commands that install packages: pip of this environment, or uv where it has none."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys

from harness.errors import ReleaseError


def pip_command(*arguments: str) -> list[str]:
    """Return a command of pip without version check and prompts.

    Raises:
        ReleaseError: this environment has no pip.
    """
    if not _has_pip():
        raise ReleaseError(
            "this environment has no pip, which is needed to install releases; run: "
            "python -m ensurepip"
        )
    quiet = ("--disable-pip-version-check", "--no-input")
    return [sys.executable, "-m", "pip", *arguments, *quiet]


def install_command(requirements: list[str], into: str) -> list[str]:
    """Return the command that installs packages into a folder, without their requirements.

    Raises:
        ReleaseError: there is neither pip nor uv.
    """
    if not _has_pip() and (uv := shutil.which("uv")):
        return [uv, "pip", "install", "--python", sys.executable, "--no-deps", "--target", into,
                *requirements]  # fmt: skip
    return pip_command("install", "--quiet", "--no-deps", "--target", into, *requirements)


def _has_pip() -> bool:
    # Not by finding the module: setuptools hooks that search and then replaces distutils.
    return any(importlib.metadata.distributions(name="pip"))


def format_failure(stderr: str) -> str:
    """Return the error message of an installer in one line."""
    lines = [line for line in stderr.splitlines() if line.startswith(("ERROR:", "error:"))]
    errors = lines or stderr.strip().splitlines()[-1:]
    return (
        "; ".join(line.partition(":")[2].strip() or line for line in errors) or "no error message"
    )
