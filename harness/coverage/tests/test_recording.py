"""Recordings are those of the cells: what skips or replaces vendors' code is off, and a cell's
functions do not depend on the cells before it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.coverage.coverage_map import MAP_FILE, CoverageMap
from harness.pytest_plugin.tests.sessions import ROOT, environment, script

_REPLACED = """
import json
from harness.coverage.vendor_code import list_vendor_files
from harness.pipeline import speed
from harness.vendors import replacements
speed.install(complete=True)
files = {str(file.path): file.name for file in list_vendor_files()}
found = []
for each in replacements.list_replacements():
    code = getattr(each.original, "__code__", None)
    if code is not None and code.co_filename in files:
        found.append(str(each))
print(json.dumps([sorted(found), replacements.is_sped_up()]))
"""

# These replacements call what they replace: at each call, or once for the same arguments.
_CALLING = {
    "executorch.backends.xnnpack._passes.convert_to_linear:ConvertToLinearPass.call",
    "executorch.backends.xnnpack._passes.convert_to_sdpa:ConvertToSDPAPass.call",
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils:_get_aten_graph_module_for_pattern",
    "executorch.exir.backend.backend_api:_create_partitions_in_graph_module",
    "executorch.exir.backend.backend_api:is_identical_graph",
    "executorch.exir.backend.utils:WhyNoPartition.__call__",
    "executorch.exir.backend.utils:is_identical_graph",
}


@pytest.mark.nightly
def test_no_vendor_code_is_replaced_by_other_code() -> None:
    replaced, is_sped_up = json.loads(script(_REPLACED, anew=True).stdout.splitlines()[-1])
    assert set(replaced) == _CALLING
    assert not is_sped_up, "cached results of vendors' code would be used"


def record(folder: Path, *arguments: str) -> dict[str, set[tuple[str, int]]]:
    """Record cells; return the functions that each enters."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "python_files=", "--coverage"]
    ran = subprocess.run(
        [*command, "--run-dir", str(folder), *arguments],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-2000:]
    with CoverageMap(folder / MAP_FILE) as found:
        arcs = {number: (file, executed) for number, file, executed in found.read_arcs()}
        functions = {
            cell: {(arcs[id_][0], -begin) for id_ in ids for begin, _ in arcs[id_][1] if begin < 0}
            for cell, ids in found.read_cells()
        }
        return {**functions, "": found.read_once()}


@pytest.mark.nightly
def test_a_cell_is_charged_with_what_it_executes(tmp_path: Path) -> None:
    recorded = record(tmp_path, "-n", "1", "suites/quick", "-k", "xnnpack:fp32")
    functions = {cell: names for cell, names in recorded.items() if cell}
    assert len(functions) > 2
    for cell, names in functions.items():
        files = {file for file, _ in names}
        assert "executorch/exir/program/_program.py" in files, cell
        assert "executorch/backends/xnnpack/partition/xnnpack_partitioner.py" in files, cell
        assert not any("/arm/" in file or "/mlx/" in file for file in files), cell
    # Every cell makes all visitors; only attention calls that of softmax.
    visitor = "executorch/backends/xnnpack/operators/op_softmax.py"
    called = {
        cell: len([file for file, _ in names if file == visitor])
        for cell, names in functions.items()
    }
    attention = called.pop("quick/attention@xnnpack:fp32")
    assert attention > max(called.values())


@pytest.mark.nightly
def test_recordings_do_not_depend_on_the_cells_before(tmp_path: Path) -> None:
    """A cell that runs alone, without caches of ours, executes the same functions, except for those
    that are stored as executed once in a process."""
    together = record(tmp_path / "all", "-n", "1", "suites/quick")
    once = together.pop("")
    assert len(together) > 20
    for number, (cell, functions) in enumerate(list(together.items())[::3]):
        name = " and ".join(re.split("[/@]", cell))
        alone = record(tmp_path / str(number), "-n", "0", "--no-speed", "suites/quick", "-k", name)
        # A cell that needs an operator first creates it; a later one finds it.
        assert alone[cell] ^ functions <= once, cell
        assert len(alone[cell] ^ functions) < 20, cell
