"""Small projects on disk, for tests of what their cells hang on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.results.sources import Sources


def written(root: Path, files: Mapping[str, str]) -> Path:
    """A project with these files; packages have an ``__init__.py`` each without asking."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        for folder in path.relative_to(root).parents:
            if folder.name and path.suffix == ".py":
                (root / folder / "__init__.py").touch()
    return root


def sources(root: Path, suites: str = "suites") -> Sources:
    return Sources([root / suites], root)


def labels(found: Sources, module: Path) -> set[str]:
    return {found.label(path) for path in found.of_suite(module)}
