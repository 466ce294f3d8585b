"""Makes executorch's MLX backend importable where its wheel lacks the generated modules.

Wheels for other hosts than macOS hold the schema, its generator and flatc. What these generate
goes to a temporary folder; lowering then works anywhere, executing takes Apple silicon.
"""

import contextlib
import importlib.abc
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import CannotTry, lower

PACKAGE = "executorch.backends.mlx.serialization"
INSPECTOR = "executorch.backends.mlx._generated_inspector"
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def install() -> None:
    """Generate the missing modules and let Python find them.

    Raises:
        CannotTry: this wheel holds no MLX backend.
    """
    root = Path(next(iter(importlib.util.find_spec("executorch").submodule_search_locations)))
    source = root / "backends" / "mlx" / "serialization"
    if not source.is_dir():
        raise CannotTry("this executorch has no backends/mlx")
    if (source / "mlx_graph_schema.py").exists() or _KEPT:
        return
    _KEPT.append(tempfile.TemporaryDirectory())
    # The generator derives its paths from its own place: .../mlx/serialization.
    folder = Path(_KEPT[0].name) / "mlx" / "serialization"
    shutil.copytree(source, folder)
    spec = importlib.util.spec_from_file_location("generate", folder / "generate.py")
    generate: Any = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generate  # its dataclasses look their module up
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
    sys.meta_path.insert(0, _Finder({PACKAGE: folder / "__init__.py", INSPECTOR: inspector}))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if (file := self.files.get(fullname)) is None:
            return None
        inside = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, file, submodule_search_locations=inside
        )


def lowered(module: torch.nn.Module, inputs: tuple[Any, ...], passes: bool = True) -> Any:
    """The module lowered for MLX, with the backend's default passes unless told otherwise."""
    install()
    from executorch.backends.mlx import MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes
    from executorch.exir import EdgeCompileConfig

    return lower(
        module,
        inputs,
        MLXPartitioner(),
        transform_passes=get_default_passes() if passes else [],
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
    )


def content(module: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """What the runtime's MLX delegate is handed, read by executorch's own inspector.

    ``instructions``, ``constants`` (name to bytes), and under ``graph`` all else but the names of
    values, which begin with a hash of the exported graph.

    Raises:
        CannotTry: something of the module was left to the runtime.
    """
    graph_module = lowered(module, inputs).exported_program().graph_module
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    others = [str(node.target) for node in calls[1:] if "getitem" not in str(node.target)]
    if others:
        raise CannotTry(f"not one delegate only: {others}")
    delegate = getattr(graph_module, calls[0].args[0].target)
    from executorch.backends.mlx.pte_inspector import parse_mlx_payload

    graph = parse_mlx_payload(bytes(delegate.processed_bytes))["graph"]
    graph.pop("named_slots")
    chains = graph.pop("instruction_chains")
    data = delegate.named_data_store_output
    return {
        "instructions": [each for chain in chains for each in chain["instructions"]],
        "constants": {
            name.partition("/")[2]: data.buffers[entry.buffer_index]
            for name, entry in data.pte_data.items()
        },
        "graph": graph,
    }


def operators(instructions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The instructions as they are written in a report: without their numbers."""
    numbers = ("instr_idx", "op_type")
    return [{k: v for k, v in each.items() if k not in numbers} for each in instructions]
