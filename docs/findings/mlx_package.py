"""Make executorch's MLX backend importable if its wheel lacks the generated modules.

Wheels for hosts other than macOS contain the schema, its generator and flatc. The generated
modules go to a temporary folder. Lowering then works anywhere; executing needs Apple silicon.
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
from common import CannotTry, Observation, lower

PACKAGE = "executorch.backends.mlx.serialization"
INSPECTOR = "executorch.backends.mlx._generated_inspector"
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def install() -> None:
    """Generate the missing modules and put them on Python's path.

    Raises:
        CannotTry: this wheel contains no MLX backend.
    """
    root = Path(next(iter(importlib.util.find_spec("executorch").submodule_search_locations)))
    source = root / "backends" / "mlx" / "serialization"
    if not source.is_dir():
        raise CannotTry("this executorch has no backends/mlx")
    if (source / "mlx_graph_schema.py").exists() or _KEPT:
        return
    _KEPT.append(tempfile.TemporaryDirectory())
    # The generator derives its paths from its own path: .../mlx/serialization.
    folder = Path(_KEPT[0].name) / "mlx" / "serialization"
    shutil.copytree(source, folder)
    spec = importlib.util.spec_from_file_location("generate", folder / "generate.py")
    generate: Any = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = generate  # Its dataclasses need their module in sys.modules.
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
    """Lower a module for MLX, by default with the backend's default passes."""
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
    """Read the payload of the MLX delegate with executorch's own inspector.

    Returns:
        ``instructions``; ``constants`` (name to bytes); and under ``graph`` all other fields except
        the names of values, which begin with a hash of the exported graph.

    Raises:
        CannotTry: the program has fallback nodes or several delegates.
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


def compare_payloads(expected: str, one: dict[str, Any], other: dict[str, Any]) -> Observation:
    """Compare the contents of two payloads whose programs have different results.

    Args:
        expected: which payloads have to differ.
        one: of :func:`content`.
        other: of :func:`content`.
    """
    same = one == other
    return Observation(expected, "the same payload" if same else "different payloads", wrong=same)


def operators(instructions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the instructions without their numbers, as a report shows them."""
    numbers = ("instr_idx", "op_type")
    return [{k: v for k, v in each.items() if k not in numbers} for each in instructions]
