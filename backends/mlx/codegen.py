"""Generate the schema modules that ``executorch.backends.mlx`` lacks in some wheels.

Wheels for hosts other than macOS contain the schema, its generator and ``flatc``, but not the
generated modules, so the package cannot be imported. :func:`install` generates the modules into a
cache outside site-packages and lets Python import them from there.

The cache key covers all inputs, so each version of the wheel has its own entry. An entry is
written to a temporary folder and renamed, so no process can see an incomplete one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from harness import ConformError
from harness.cache_folders import cache_folder

_DELEGATE = "executorch.backends.mlx"
_PACKAGE = f"{_DELEGATE}.serialization"
_INSPECTOR = f"{_DELEGATE}._generated_inspector"


class GenerationError(ConformError):
    """The wheel lacks generated modules, and they cannot be generated from its contents."""


@functools.cache
def install() -> None:
    """Make ``executorch.backends.mlx`` importable in this process.

    Does nothing when the wheel is complete.

    Raises:
        GenerationError: the wheel has no schema, generator or compiler, or they disagree.
    """
    source = wheel_folder() / "serialization"
    if _is_complete(source):
        return
    entry = find_or_generate(source)
    sys.meta_path.insert(0, _GeneratedModuleFinder(entry))
    importlib.invalidate_caches()


def find_completed_package() -> Path | None:
    """Return the folder of the completed ``serialization`` package, which is executed instead of
    the wheel's; None if that is complete, or cannot be completed."""
    try:
        source = wheel_folder() / "serialization"
        return None if _is_complete(source) else find_or_generate(source) / source.name
    except GenerationError:
        return None


def _is_complete(source: Path) -> bool:
    return (source / "mlx_graph_schema.py").exists()


def wheel_folder() -> Path:
    """Return the folder of the MLX delegate in the installed wheel.

    Raises:
        GenerationError: executorch is not installed, or its wheel has no MLX delegate.
    """
    spec = importlib.util.find_spec("executorch")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (found := Path(folder) / "backends" / "mlx").is_dir():
            return found
    raise GenerationError(
        "the installed executorch has no backends/mlx; install the version that pyproject.toml pins"
    )


_LOADING = threading.Lock()


def find_or_generate(source: Path, cache: Path | None = None) -> Path:
    """Return the folder of the completed package; generate it if it is missing.

    Args:
        source: the ``serialization`` package of the wheel.
        cache: folder of all entries; by default the user's cache folder, or a temporary folder of
            this process when that is not writable.

    Raises:
        GenerationError: see :func:`install`.
    """
    flatc = _find_flatc(source)
    inputs = [*sorted(source.glob("*.py")), source / "schema.fbs"]
    missing = [path.name for path in (*inputs, source / "generate.py") if not path.exists()]
    if missing:
        raise GenerationError(f"{source} lacks {', '.join(missing)}; reinstall executorch")
    digest = hashlib.sha256(sys.version.encode())
    for path in (*inputs, flatc):
        digest.update(path.name.encode() + path.read_bytes())
    key = digest.hexdigest()[:32]
    entry = (cache or cache_folder("mlx-schema")) / key
    if os.path.isdir(entry):  # works also in a read-only cache
        return entry
    try:
        if cache is None and not _is_writable(entry.parent):
            entry = _private_folder() / key
        if not entry.is_dir():
            _publish(inputs, flatc, entry)
    except OSError as error:
        raise GenerationError(f"cannot write the generated modules: {error}") from error
    return entry


def load_generator(folder: Path) -> Any:
    """Import ``generate.py`` from a folder; the module reads and writes there.

    Raises:
        GenerationError: the file is missing or cannot be imported.
    """
    path = folder / "generate.py"
    load = importlib.util.spec_from_file_location  # imports only: executorch
    spec = load("_mlx_schema_generator", path)
    if spec is None or spec.loader is None or not path.exists():
        raise GenerationError(f"{path} is missing; reinstall executorch")
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look up their module by name: no other thread may use the name meanwhile.
    with _LOADING:
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise GenerationError(f"{path} cannot be imported: {error}") from error
        finally:
            sys.modules.pop(spec.name, None)
    return module


def _find_flatc(source: Path) -> Path:
    flatc = source.parents[2] / "data" / "bin" / "flatc"
    if flatc.exists():
        return flatc
    on_path = shutil.which("flatc")
    if on_path is None:
        raise GenerationError(f"{flatc} is missing and there is no flatc on the PATH")
    return Path(on_path)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def _private_folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="conform-mlx-schema-")
    _PRIVATE_FOLDERS.append(holder)  # removed when the process ends
    return Path(holder.name)


_PRIVATE_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _publish(inputs: list[Path], flatc: Path, entry: Path) -> None:
    """Generate in a temporary folder and rename it; an entry of another process stays."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".making-") as making:
        # The generator derives its paths from its own folder: .../mlx/serialization.
        delegate = Path(making) / "mlx"
        folder = delegate / "serialization"
        folder.mkdir(parents=True)
        for path in inputs:
            shutil.copyfile(path, folder / path.name)
        _generate(folder, flatc)
        try:
            os.rename(delegate, entry)
        except OSError:
            if not entry.is_dir():
                raise


def _generate(folder: Path, flatc: Path) -> None:
    generator = load_generator(folder)
    try:
        schema = generator.parse_fbs(folder / "schema.fbs")
        nodes = [table.name for table in schema.get_op_nodes()]
        dataclasses = generator.generate_python_schema(schema)
        serializers = generator.generate_python_serializers(schema)
        inspector = generator.generate_inspector(schema)
    except Exception as error:
        raise GenerationError(
            f"executorch's schema.fbs and generate.py disagree: {type(error).__name__}: {error}; "
            f"install the version that pyproject.toml pins"
        ) from error
    absent = [
        name
        for name in nodes
        if f"class {name}:" not in dataclasses or f"def _build_{name}(" not in serializers
    ]
    if absent or not nodes:
        raise GenerationError(
            f"executorch's generate.py generates no code for {', '.join(absent) or 'any node'} of "
            f"its schema.fbs; install the version that pyproject.toml pins"
        )
    _run_flatc(folder, flatc)
    with contextlib.redirect_stdout(io.StringIO()):
        generator._fixup_flatc_imports()
    (folder / "_generated" / "__init__.py").write_text("")
    (folder / "mlx_graph_schema.py").write_text(dataclasses)
    (folder / "_generated_serializers.py").write_text(serializers)
    (folder.parent / "_generated_inspector.py").write_text(inspector)


def _run_flatc(folder: Path, flatc: Path) -> None:
    output = folder / "_generated"
    command = [str(flatc), "--python", "-o", str(output), str(folder / "schema.fbs")]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise GenerationError(f"{flatc} does not run: {error.strerror}") from error
    if result.returncode != 0 or not (output / "mlx_delegate").is_dir():
        # Of several lines, one has the error and its position.
        text = result.stderr + result.stdout
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        reason = next((line for line in lines if "error: " in line), " ".join(lines[:3]))
        raise GenerationError(f"{flatc} refuses schema.fbs: {reason or 'no reason given'}")


class _GeneratedModuleFinder(importlib.abc.MetaPathFinder):
    """Finds the generated modules in their cache entry; Python finds all others."""

    def __init__(self, entry: Path) -> None:
        self._package = entry / "serialization"
        self._inspector = entry / "_generated_inspector.py"

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        load = importlib.util.spec_from_file_location  # imports only: executorch
        if fullname == _PACKAGE:
            return load(
                fullname,
                self._package / "__init__.py",
                submodule_search_locations=[str(self._package)],
            )
        if fullname == _INSPECTOR:
            return load(fullname, self._inspector)
        return None
