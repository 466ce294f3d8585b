"""The lowering code of each area is found where it is installed."""

from __future__ import annotations

import fnmatch
import importlib
from pathlib import Path

from backends.mlx import codegen
from harness.coverage.vendor_code import list_patterns, list_vendor_files
from harness.model import registry

FILES = {file.name: file for file in list_vendor_files()}


def test_each_area_has_the_code_that_its_target_runs() -> None:
    expected = {
        "executorch/backends/xnnpack/operators/op_gelu.py": "xnnpack",
        "executorch/backends/xnnpack/partition/xnnpack_partitioner.py": "xnnpack",
        "executorch/backends/arm/operators/op_tosa_conv2d.py": "tosa",
        "executorch/backends/arm/quantizer/arm_quantizer.py": "tosa",
        "executorch/backends/mlx/ops.py": "mlx",
        "executorch/backends/apple/metal/metal_partitioner.py": "metal",
        "torch/_inductor/codegen/mps.py": "metal",
        "executorch/exir/program/_program.py": "exir",
        "executorch/backends/transforms/remove_getitem_op.py": "exir",
        "torchao/quantization/pt2e/observer.py": "pt2e",
    }
    assert {name: FILES[name].area for name in expected} == expected
    assert all(file.path.is_file() for file in FILES.values())


def test_tests_tools_and_other_delegates_are_excluded() -> None:
    for name in FILES:
        assert "/test/" not in name
        assert "/third-party/" not in name
        assert "/ethosu/" not in name
        assert "/inductor_passes/" not in name
        assert "codegen/cpp.py" not in name


def test_patterns_match_all_files() -> None:
    patterns = list_patterns()
    assert len(patterns) < 20
    for file in FILES.values():
        assert any(fnmatch.fnmatch(str(file.path), pattern) for pattern in patterns), file


def test_each_backend_with_a_delegate_names_its_code() -> None:
    delegating = {name for name in registry.names() if hasattr(registry.backend(name), "delegate")}
    delegating.add("xnnpack")
    assert delegating <= {file.area for file in FILES.values()}


def test_a_copy_that_is_executed_is_recorded() -> None:
    """MLX's serialization is executed from the cache where the wheel lacks parts of it."""
    codegen.install()
    module = importlib.import_module("executorch.backends.mlx.serialization.mlx_graph_serialize")
    file = FILES["executorch/backends/mlx/serialization/mlx_graph_serialize.py"]
    assert file.path == Path(module.__file__ or "")
