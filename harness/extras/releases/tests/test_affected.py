"""From paths of ExecuTorch's repository to the cells that a change there can affect."""

from __future__ import annotations

from pathlib import Path

import executorch
import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.extras.releases.affected import ALL_BACKENDS, find_affected_backends
from harness.model import registry

FOLDERS = ("mlx apple/metal xnnpack arm arm/vgf aoti apple/coreml cortex_m openvino").split()


@pytest.mark.parametrize(
    ("paths", "backends"),
    [
        (["backends/mlx/ops.py"], ["mlx"]),
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
        (["exir/passes/remove_noop_pass.py"], list(ALL_BACKENDS)),
        (["backends/transforms/utils.py"], list(ALL_BACKENDS)),
        (["kernels/portable/cpu/op_add.cpp"], list(ALL_BACKENDS)),
        (["a/file/that/nobody/knows.py"], list(ALL_BACKENDS)),
        (["backends/vulkan/runtime/api.cpp", "README.md", ""], []),
        (["backends/xnnpack/test/ops/test_add.py"], []),
        ([], []),
    ],
)
def test_paths(paths: list[str], backends: list[str]) -> None:
    assert find_affected_backends(paths) == backends


def test_every_backend_is_there() -> None:
    assert set(ALL_BACKENDS) == set(registry.names()) - {"null"}


def test_other_backends_are_upstreams() -> None:
    """A folder that upstream renames would otherwise be left out of every run."""
    there = Path(next(iter(executorch.__path__))) / "backends"
    assert all((there / name).is_dir() for name in FOLDERS)


def test_the_command_prints_a_value_for_the_option_targets() -> None:
    ran = CliRunner().invoke(main, ["releases", "affected"], input="backends/mlx/ops.py\n")
    assert (ran.exit_code, ran.output) == (0, "mlx\n")
    none = CliRunner().invoke(main, ["releases", "affected"], input="README.md\n")
    assert none.exit_code == 0
    assert none.stdout == ""
    assert "no cell" in none.stderr
