"""Maps changed files of ExecuTorch to the backends that they can affect.

Each backend names the code that lowers programs for it; what belongs to none affects all.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from harness.model import registry
from harness.model.backend import NamesLoweringCode

_OTHER_DELEGATES = (
    "apple/mps cadence cuda example ggml mediatek nxp qualcomm samsung vulkan webgpu"
).split()

_WITHOUT_EFFECT = (
    *(f"backends/{name}/*" for name in _OTHER_DELEGATES),
    "docs/*", "examples/*", ".github/*", ".ci/*", "scripts/*", "*/test/*", "*/tests/*", "*.md",
    "*.rst",
)  # fmt: skip
"""Files that no program of a backend here uses."""

# Except for modules in them that a backend names.
_TOOLS = ("extension/*", "devtools/*")
_PACKAGE = "executorch."


def find_affected_backends(paths: Iterable[str]) -> list[str]:
    """Return the backends that a change of these files can affect, in the order of the registry.

    A path that no backend names (``exir/``, ``kernels/``, ``runtime/``, ``backends/transforms/``,
    ``schema/``, build files) can affect every backend.

    Args:
        paths: relative to ExecuTorch's repository, as git lists them.
    """
    every = list_affectable_backends()
    places = _list_places(every)
    found: set[str] = set()
    for path in filter(None, (text.strip() for text in paths)):
        found |= _find_backends_of(path, places, every)
    return [name for name in every if name in found]


def list_affectable_backends() -> list[str]:
    """List the backends that a vendor's code lowers programs for: all but the one that runs eager
    PyTorch."""
    return [name for name in registry.names() if name != "null"]


def _find_backends_of(path: str, places: dict[str, set[str]], every: list[str]) -> set[str]:
    if any(fnmatchcase(path, glob) for glob in _WITHOUT_EFFECT):
        return set()
    within = [place for place in places if path == f"{place}.py" or path.startswith(f"{place}/")]
    if within:
        return places[max(within, key=len)]
    return set() if any(fnmatchcase(path, glob) for glob in _TOOLS) else set(every)


def _list_places(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the backends by the module or package of ExecuTorch that they name, as a path."""
    found: dict[str, set[str]] = {}
    for name in names:
        backend = registry.backend(name)
        if isinstance(backend, NamesLoweringCode):
            code = backend.lowering_code
            for module in (*code.modules, *code.shared):
                if module.startswith(_PACKAGE):
                    place = module.removeprefix(_PACKAGE).replace(".", "/")
                    found.setdefault(place, set()).add(name)
    return found
