"""Preamble of scripts that lower for MLX with upstream's packages alone.

Generates the modules that wheels for hosts other than macOS lack, like :mod:`backends.mlx.codegen`
but without its cache and checks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any


def complete_mlx() -> None:
    """Generate the modules of backends/mlx that executorch's wheel lacks; let Python find them."""
    found = importlib.util.find_spec("executorch")
    root = Path(next(iter(found.submodule_search_locations or []))) if found else Path()
    source = root / "backends" / "mlx" / "serialization"
    if (source / "mlx_graph_schema.py").exists() or not source.is_dir():
        return
    # The generator derives its paths from its own folder: .../mlx/serialization.
    folder = Path(tempfile.mkdtemp()) / "mlx" / "serialization"
    shutil.copytree(source, folder)
    load: Any = importlib.util.spec_from_file_location  # imports only: executorch
    spec: Any = load("generate", folder / "generate.py")
    generate: Any = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generate  # its dataclasses look up their module
    spec.loader.exec_module(generate)
    schema = generate.parse_fbs(folder / "schema.fbs")
    (folder / "mlx_graph_schema.py").write_text(generate.generate_python_schema(schema))
    serializers = generate.generate_python_serializers(schema)
    (folder / "_generated_serializers.py").write_text(serializers)
    inspector = folder.parent / "_generated_inspector.py"
    inspector.write_text(generate.generate_inspector(schema))
    flatc = [str(root / "data" / "bin" / "flatc"), "--python", "-o", str(folder / "_generated")]
    subprocess.run([*flatc, str(folder / "schema.fbs")], check=True, capture_output=True)
    with contextlib.redirect_stdout(io.StringIO()):
        generate._fixup_flatc_imports()
    (folder / "_generated" / "__init__.py").touch()
    places = {
        "executorch.backends.mlx.serialization": folder / "__init__.py",
        "executorch.backends.mlx._generated_inspector": inspector,
    }

    class Finder(PathFinder):
        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
            if (file := places.get(fullname)) is None:
                return None
            inside = [str(file.parent)] if file.name == "__init__.py" else None
            return load(fullname, file, submodule_search_locations=inside)

    sys.meta_path.insert(0, Finder())


complete_mlx()
