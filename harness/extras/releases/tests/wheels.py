"""Wheels of a package that calls itself executorch, small enough to be made in a test."""

from __future__ import annotations

import zipfile
from pathlib import Path


def wheel(folder: Path, version: str, *, requires: tuple[str, ...] = ()) -> Path:
    """A wheel of one module that contains its version."""
    path = folder / f"executorch-{version}-py3-none-any.whl"
    info = f"executorch-{version}.dist-info"
    head = f"Metadata-Version: 2.1\nName: executorch\nVersion: {version}\n"
    wanted = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        "executorch/version.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": head + wanted,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
        made.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path
