"""Files of the packages that hold trained weights and data.

The packages are not imported: most of them import libraries that the files do not need.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement

_LIST = Path(__file__).with_name("requirements.txt")


@functools.cache
def read_requirements() -> dict[str, str]:
    """Return the requirements by the name of the distribution."""
    lines = (line for line in _LIST.read_text().splitlines() if line and line[0] != "#")
    return {Requirement(line).name: line for line in lines}


def pin(*names: str) -> tuple[str, ...]:
    """Return the requirements of distributions, for ``Case(requires=...)``."""
    return tuple(read_requirements()[name] for name in names)


def find_file(path: str) -> Path:
    """Return a file of an installed package.

    Args:
        path: ``package/folder/file``.

    Raises:
        FileNotFoundError: no folder of ``sys.path`` has it.
    """
    found = next((file for at in sys.path if (file := Path(at, path)).is_file()), None)
    if found is None:
        raise FileNotFoundError(f"no installed package has {path}; {_LIST} lists all")
    return found


def load_weights(path: str) -> Any:
    """Return what torch saved in a file of an installed package, with its tensors on the CPU."""
    return torch.load(find_file(path), map_location="cpu", weights_only=True)
