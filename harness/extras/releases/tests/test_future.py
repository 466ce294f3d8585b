"""A release newer than this project gets clear messages, and all unaffected parts work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from backends.metal.contract import bind, check
from backends.metal.contract.rule import CHECKED_RELEASES
from harness.pytest_plugin.tests.sessions import script

# One private function is renamed, and another behaves differently.
RENAMED = """
from executorch.exir.backend import utils
from executorch.exir.dialects.edge._ops import EdgeOpOverload
utils.is_the_same_graph = utils.is_identical_graph
del utils.is_identical_graph
call = EdgeOpOverload.__call__
def renewed(self, *args, **kwargs):
    return call(self, *args, **kwargs)
EdgeOpOverload.__call__ = renewed

from harness.pipeline import speed
speed.install()
left = speed.find_disabled_parts()
print(sorted(left))
print(left["eviction"])
print(left["passes.fake_results"])
assert EdgeOpOverload.__call__ is renewed
import torch
assert torch.fx.GraphModule.recompile.__module__ == "harness.pipeline.speed.graph_code"
"""


# Names that rewriting a program and generating for Metal need are missing, and a pass of Arm's.
GONE = """
import importlib.metadata, json
version = importlib.metadata.version
newer = {"executorch": "9.9.0", "torch": "9.9.0"}
importlib.metadata.version = lambda name: newer.get(name) or version(name)

import executorch.backends.arm._passes.decompose_sinh_pass as sinh
del sinh.DecomposeSinhPass
# The vendors themselves need the names that they have.
from harness.vendors import executorch, torch
for names, name in (executorch.NAMES, "_transform"), (torch.NAMES, "MetalKernel"):
    module, _ = names.places[name]
    names.places[name] = (module, name + "2")

import torch
from harness import Case, Target, run_cell, vendors
class Sinh(torch.nn.Module):
    def forward(self, x):
        return x.sinh()
def cell(target):
    # TOSA's exponentials cancel near 0.
    case = Case.from_module("sinh", Sinh(), (torch.linspace(1, 2, 4),))
    cell = run_cell(case, Target.parse(target))
    return target, [cell.status.value, cell.stage, cell.error]
targets = "xnnpack:fp32", "mlx:fp32", "tosa:fp", "metal:fp32", "tosa:fp+decompose_sinh"
print(json.dumps([dict(vendors.find_missing_names()), dict(map(cell, targets))]))
"""


@pytest.mark.nightly
def test_missing_names_disable_only_parts_that_need_them() -> None:
    gone, cells = json.loads(_in_a_process(GONE).splitlines()[-1])
    assert sorted(gone) == [
        "executorch.exir.program._program._transform2",
        "torch._inductor.codegen.mps.MetalKernel2",
    ]
    for target in ("xnnpack:fp32", "mlx:fp32", "tosa:fp"):
        assert cells[target] == ["passed", None, None], target
    status, stage, error = cells["metal:fp32"]
    assert (status, stage) == ("failed", "lower")
    assert "has no torch._inductor.codegen.mps.MetalKernel2, which is needed for Metal" in error
    status, stage, error = cells["tosa:fp+decompose_sinh"]
    assert "executorch 9.9.0 has no pass" in error
    assert "leave it out of the target" in error


# The schema has one additional node type, which the delegate writes in place of another.
NEWER = '''
import json, shutil, sys
from pathlib import Path
from backends.mlx import codegen
newer = Path(sys.argv[1])
shutil.copytree(codegen.wheel_folder() / "serialization", newer / "serialization")
schema = newer / "serialization" / "schema.fbs"
text = schema.read_text()
table = "table TeleportNode { x: Tid (required); out: Tid (required); } "
old, new = "union OpNode {\\n", "union OpNode {\\n    TeleportNode,\\n"
assert text.count(old) == 1
schema.write_text(text.replace(old, table + new))
with (newer / "serialization" / "generate.py").open("a") as generator:
    print("""
_of_schema = generate_python_schema
def generate_python_schema(schema):
    return _of_schema(schema) + chr(10) + "CosNode = TeleportNode" + chr(10)
""", file=generator)
codegen.wheel_folder = lambda: newer
codegen.install()

import torch
from harness import Case, Target, run_cell
class Sin(torch.nn.Module):
    def forward(self, x):
        return x.sin()
class Cos(torch.nn.Module):
    def forward(self, x):
        return x.cos()
def cell(module):
    case = Case.from_module("it", module, (torch.randn(4),))
    cell = run_cell(case, Target.parse("mlx:fp32"))
    return [cell.status.value, cell.stage, cell.error]
print(json.dumps([cell(Sin()), cell(Cos())]))
'''


def test_an_unknown_node_makes_only_programs_with_it_fail(tmp_path: Path) -> None:
    known, unknown = json.loads(_in_a_process(NEWER, str(tmp_path / "mlx")).splitlines()[-1])
    assert known == ["passed", None, None]
    status, stage, error = unknown
    assert (status, stage) == ("unsupported", "run")
    assert "TeleportNode cannot be executed on this host" in error


def _in_a_process(code: str, *arguments: str, anew: bool = False) -> str:
    ran = script(code, *arguments, anew=anew)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.nightly
def test_only_the_replacement_of_a_renamed_function_is_skipped() -> None:
    names, gone, other = _in_a_process(RENAMED, anew=True).splitlines()[-3:]
    assert names == "['eviction', 'passes.fake_results']"
    assert "utils:is_identical_graph is not there" in gone
    # From Python 3.13 on what -c defines has a source.
    why = "is not the one that was read" if sys.version_info >= (3, 13) else "has no source to read"
    assert f"EdgeOpOverload.__call__ {why}" in other


def test_a_kernel_that_a_later_runtime_may_have_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = bind("aoti_torch_mps_cumsum")
    assert [str(found.kind.value) for found in check(call)] == ["missing"]
    monkeypatch.setattr(
        "harness.vendors.versions.installed_version", lambda package="executorch": "9.9.0"
    )
    assert check(call) == []
    assert "9.9.0" not in CHECKED_RELEASES


def test_backends_report_an_unverified_release(monkeypatch: pytest.MonkeyPatch) -> None:
    from backends.metal.backend import Metal
    from backends.mlx.backend import Mlx

    monkeypatch.setattr(
        "harness.vendors.versions.installed_version", lambda package="executorch": "9.9.0"
    )
    for backend in (Metal(), Mlx()):
        state = backend.availability()
        assert state.available
        assert state.unverified.endswith("not for 9.9.0")
