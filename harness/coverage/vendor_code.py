"""The code whose execution is recorded: what lowers programs for the backends, by area."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.model import registry
from harness.model.backend import LoweringCode, NamesLoweringCode

SHARED_CODE = {
    "exir": LoweringCode(
        ("executorch.exir", "executorch.backends.transforms"),
        # serde stores exported programs, which no target does.
        excluded=("executorch.exir._serialize.generated", "executorch.exir.serde"),
    ),
    "pt2e": LoweringCode(
        ("torchao.quantization.pt2e",),
        # Quantizers of backends that are not ExecuTorch's.
        excluded=tuple(
            f"torchao.quantization.pt2e.{name}"
            for name in (
                "inductor_passes",
                "quantizer.arm_inductor_quantizer",
                "quantizer.x86_inductor_quantizer",
                "quantizer.xpu_inductor_quantizer",
            )
        ),
    ),
}
"""Code that several backends share, by area. The other areas have the names of backends."""

_ALWAYS_EXCLUDED = frozenset({"test", "tests", "third-party"})


@dataclass(frozen=True)
class VendorFile:
    """A Python file of the lowering code.

    Attributes:
        path: absolute path of the file that is executed.
        name: its path from the folder of its distribution, such as
            ``executorch/backends/xnnpack/_passes/convert_to_linear.py``.
        area: name of a backend, or of :data:`SHARED_CODE`.
    """

    path: Path
    name: str
    area: str


def list_vendor_files() -> list[VendorFile]:
    """List the installed files of all areas, by name."""
    found: dict[str, VendorFile] = {}
    for area, code in _list_areas().items():
        excluded = {name.replace(".", "/") for name in code.excluded}
        for folder, place in _find_places(code):
            for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
                name = path.relative_to(folder).as_posix()
                parts = name.removesuffix(".py").split("/")
                prefixes = {"/".join(parts[: end + 1]) for end in range(len(parts))}
                if excluded.isdisjoint(prefixes) and _ALWAYS_EXCLUDED.isdisjoint(parts[:-1]):
                    found[name] = VendorFile(_find_copy(code, path, name), name, area)
    return [found[name] for name in sorted(found)]


def list_patterns() -> list[str]:
    """List few patterns that all vendor files match, in coverage.py's syntax."""
    areas = _list_areas().values()
    places = [place for code in areas for _, place in _find_places(code)]
    places += [copy for code in areas for _, copy in code.copies]
    return [str(place if place.is_file() else place / "*") for place in places]


def _find_copy(code: LoweringCode, path: Path, name: str) -> Path:
    """Return the file that is executed in place of a file of a package."""
    for package, folder in code.copies:
        copy = folder / path.name
        if name == f"{package.replace('.', '/')}/{path.name}" and copy.is_file():
            return copy
    return path


def _list_areas() -> dict[str, LoweringCode]:
    areas = dict(SHARED_CODE)
    for name in registry.names():
        backend = registry.backend(name)
        if isinstance(backend, NamesLoweringCode):
            areas[name] = backend.lowering_code
    return areas


def _find_places(code: LoweringCode) -> Iterator[tuple[Path, Path]]:
    """Yield each existing file or package of the modules, behind the folder of its distribution.

    No package is imported.
    """
    for module in code.modules:
        package, *rest = module.split(".")
        spec = importlib.util.find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            place = Path(location).joinpath(*rest)
            single = place.with_suffix(".py")
            if single.is_file() or place.is_dir():
                yield Path(location).parent, single if single.is_file() else place
