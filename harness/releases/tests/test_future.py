"""A release that nobody has seen: clear words, and a working rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backends.metal.contract import bind, check
from backends.metal.contract.rule import READ

# A private function was renamed, and another does something else now.
RENAMED = """
from executorch.exir import pass_manager
from executorch.exir.dialects.edge._ops import EdgeOpOverload
manager = pass_manager.ExportedProgramPassManager
manager.check_program = manager.check
del manager.check
call = EdgeOpOverload.__call__
def renewed(self, *args, **kwargs):
    return call(self, *args, **kwargs)
EdgeOpOverload.__call__ = renewed

from harness.pipeline import speed
speed.install()
left = speed.left_out()
print(sorted(left))
print(left["verifying"])
print(left["faked"])
assert EdgeOpOverload.__call__ is renewed
import torch
assert torch.fx.GraphModule.recompile.__module__ == "harness.pipeline.speed.code"
"""


def test_what_stands_in_for_a_renamed_function_is_left_out_and_the_rest_is_not() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RENAMED], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    names, gone, other = ran.stdout.splitlines()
    assert names == "['faked', 'verifying']"
    assert "ExportedProgramPassManager.check is not the one that was read" in gone  # its base's
    assert "EdgeOpOverload.__call__ has no source to read" in other


def test_a_kernel_that_a_later_runtime_may_have_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = bind("aoti_torch_mps_cumsum")
    assert [str(found.kind.value) for found in check(call)] == ["missing"]
    monkeypatch.setattr("harness.release.installed", lambda package="executorch": "9.9.0")
    assert check(call) == []
    assert "9.9.0" not in READ


def test_backends_say_that_nobody_read_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.metal.backend import Metal
    from backends.mlx.backend import Mlx

    monkeypatch.setattr("harness.release.installed", lambda package="executorch": "9.9.0")
    for backend in (Metal(), Mlx()):
        state = backend.availability()
        assert state.available
        assert state.unverified.endswith("not for 9.9.0")
