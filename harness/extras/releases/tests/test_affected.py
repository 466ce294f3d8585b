"""From paths of ExecuTorch's repository to the cells that a change there can affect."""

from __future__ import annotations

from pathlib import Path

import executorch
import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.extras.releases.affected import find_affected_backends, list_affectable_backends
from harness.model import registry
from harness.model.backend import NamesLoweringCode

ALL = list_affectable_backends()


@pytest.mark.parametrize(
    ("paths", "backends"),
    [
        (["backends/mlx/ops.py"], ["mlx"]),
        (["extension/llm/export/mx.py", "extension/llm/runner/main.cpp"], ["mlx"]),
        (
            ["backends/arm/_passes/rewrite_conv_pass.py", "docs/source/index.md"],
            ["tosa", "cortex_m", "vgf"],
        ),
        (
            [
                "backends/arm/vgf/backend.py",
                "backends/apple/coreml/partition/coreml_partitioner.py",
            ],
            ["coreml", "vgf"],
        ),
        (["backends/apple/metal/metal_backend.py", "backends/mlx/ops.py"], ["mlx", "metal"]),
        (["exir/passes/remove_noop_pass.py"], ALL),
        (["backends/transforms/utils.py"], ALL),
        (["kernels/portable/cpu/op_add.cpp"], ALL),
        (["a/file/that/nobody/knows.py"], ALL),
        (["backends/vulkan/runtime/api.cpp", "README.md", ""], []),
        (["backends/xnnpack/test/ops/test_add.py"], []),
        ([], []),
    ],
)
def test_paths(paths: list[str], backends: list[str]) -> None:
    assert find_affected_backends(paths) == backends


@pytest.mark.parametrize("name", ALL)
def test_what_a_backend_names_exists(name: str) -> None:
    """A folder that upstream renames would otherwise be left out of every run."""
    backend = registry.backend(name)
    if name == "portable":
        assert not isinstance(backend, NamesLoweringCode)
        return
    assert isinstance(backend, NamesLoweringCode)
    code, there = backend.lowering_code, Path(next(iter(executorch.__path__)))
    for module in (*code.modules, *code.shared):
        package, _, rest = module.partition(".")
        path = there.joinpath(*rest.split("."))
        assert package != "executorch" or path.is_dir() or path.with_suffix(".py").is_file()


def test_the_command_prints_a_value_for_the_option_targets() -> None:
    ran = CliRunner().invoke(main, ["releases", "affected"], input="backends/mlx/ops.py\n")
    assert (ran.exit_code, ran.output) == (0, "mlx\n")
    none = CliRunner().invoke(main, ["releases", "affected"], input="README.md\n")
    assert none.exit_code == 0
    assert none.stdout == ""
    assert "no cell" in none.stderr
