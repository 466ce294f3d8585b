"""Private names, looked up on first use; a missing one raises an error that says what to do."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import PrivateNameError
from harness.vendors.versions import PACKAGE, describe_installed, is_verified_release

VENDORS = ("torch", PACKAGE)
#: The releases of each vendor that have every name; a test checks the installed ones.
VERIFIED_RELEASES: Mapping[str, tuple[str, ...]] = {
    "torch": ("2.13.0",),
    PACKAGE: ("1.4.1", "1.5.0", "1.5.1"),
}


class PrivateNames:
    """The private names of one vendor.

    Args:
        vendor: its package.
        stub: the ``.pyi`` file that imports each name from where it stands.
        uses: what a module's names are needed for, by module.
    """

    def __init__(self, vendor: str, stub: Path, uses: Mapping[str, str]) -> None:
        self.vendor = vendor
        self.uses = uses
        #: Of each name here, the module that has it and its name there.
        self.places: dict[str, tuple[str, str]] = {
            alias.asname or alias.name: (statement.module or "", alias.name)
            for statement in ast.parse(stub.read_text(encoding="utf-8")).body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }

    def find(self, name: str) -> Any:
        """Return the object of a name.

        Raises:
            AttributeError: the stub does not list the name.
            PrivateNameError: the installed release does not have it.
        """
        if name not in self.places:
            raise AttributeError(f"harness.vendors.{self.vendor} has no {name!r}")
        module, there = self.places[name]
        try:
            found = importlib.import_module(module)
            if hasattr(found, there):
                return getattr(found, there)
            return importlib.import_module(f"{module}.{there}")
        except (ImportError, AttributeError) as error:
            raise PrivateNameError(self.explain_missing(name)) from error

    def explain_missing(self, name: str) -> str:
        """Return the error for a missing name: its use, and what to do."""
        module, there = self.places[name]
        return (
            f"{describe_installed(self.vendor)} has no {module}.{there}, which is needed for "
            f"{self.uses[module]}: name its replacement in "
            f"harness/vendors/{self.vendor}.pyi, or install {self.vendor} "
            f"{VERIFIED_RELEASES[self.vendor][-1]}"
        )

    def find_missing(self) -> dict[str, str]:
        """Return every name that the installed release lacks, and what to do; imports all
        others."""
        found = {}
        for name, (module, there) in self.places.items():
            try:
                self.find(name)
            except PrivateNameError as error:
                found[f"{module}.{there}"] = str(error)
        return found


@functools.cache
def find_missing_names() -> Mapping[str, str]:
    """Return the private names that the installed releases lack, and what to do about each.

    Nothing is imported for releases that are known to have every name.
    """
    found: dict[str, str] = {}
    for vendor in VENDORS:
        if not is_verified_release(VERIFIED_RELEASES[vendor], vendor):
            module = importlib.import_module(f"harness.vendors.{vendor}")
            found |= module.NAMES.find_missing()
    return found
