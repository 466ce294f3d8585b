"""The public names, the sample of the contract, and start-up time, on which other tools rely."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import harness
from harness import Case, Target, check, check_backend, execute, past_defects, run_cell, trace

ROOT = Path(__file__).parents[2]


def test_the_public_names_are_these() -> None:
    assert sorted(harness.__all__) == [
        "AtenKernels", "Availability", "Backend", "BlockQuantizedTensor", "Built", "CROSS_BACKEND",
        "Call", "CallInputs", "CanEmulate", "Case", "CaseError", "Cell", "CellFolder",
        "ChildProcess", "ConformError", "Defect", "DefectLog", "DelegateHandle", "DelegateLoader",
        "DelegatePayload", "Delegation", "DescribesPayloads", "Encoding", "Execution", "Exporter",
        "Found", "GENERIC_SEMANTICS", "InputError", "Inputs", "InspectedCell", "InspectsCells",
        "Interpreter", "KnownIssue", "KnownPass", "KnowsIssues", "KnowsLimitations", "Limitation",
        "LoadsDelegates", "LowerOptions", "Lowered", "MemoryMeter", "MxProduct", "Numerics",
        "OperatorSemantics", "PassCase", "PassProperty", "PayloadConstants", "Precision", "Program",
        "ProgramError", "QuantizedMatmul", "Recipe", "Reference", "ReportsConstants", "Run",
        "RuntimeKernels", "Script", "SelectsTargets", "Severity", "SharedCaseWork", "Specimen",
        "StageFailure", "Status", "Target", "Tester", "TracedNode", "UnsupportedProgram",
        "UsageError", "Verdict", "arguments", "check", "check_backend", "compute_reference",
        "describe", "describe_installed", "describe_unverified", "execute",
        "find_calibration_problem", "has_module", "installed_version", "is_installed_within",
        "is_sped_up", "list_native_backends", "op_name", "past_defects", "registry",
        "report_defect", "run_cell", "run_native", "torch_dtype", "trace", "with_divergence",
    ]  # fmt: skip
    for name in harness.__all__:
        is_alias = name in ("DelegateHandle", "DelegateLoader", "CallInputs")
        assert getattr(harness, name).__doc__ or is_alias, name
    with pytest.raises(AttributeError, match="no_such_name"):
        harness.no_such_name  # noqa: B018


def test_types_of_the_functions_of_the_contract_are_public() -> None:
    """Their arguments and results can be annotated without an import from inside the package."""
    ours = {
        name
        for path in (ROOT / "harness").rglob("*.py")
        if "tests" not in path.parts
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    for function in (run_cell, check, trace, execute, check_backend, past_defects):
        for annotation in function.__annotations__.values():
            named = set(re.findall(r"\b[A-Z]\w+", str(annotation)))
            assert named.isdisjoint(ours - set(harness.__all__)), (function.__name__, annotation)


def test_the_sample_of_the_contract() -> None:
    case = Case.from_module(
        "my_linear", torch.nn.Linear(32, 64), (torch.randn(4, 32),), dynamic_shapes=None
    )
    cell = run_cell(case, Target.parse("xnnpack:fp32"), seed=0)
    assert cell.status.value == "passed"
    assert (cell.stage, cell.error) == (None, None)
    assert cell.runtime == "native"
    delegation = cell.delegation
    assert (delegation.delegates, delegation.delegated_nodes) == (1, 1)
    assert (delegation.undelegated_nodes, delegation.undelegated_ops) == (0, {})
    assert delegation.delegated_ops == {"aten.linear.default": 1}
    numbers = cell.numerics[0]
    assert 0 < numbers.max_abs < 1e-6
    assert numbers.max_abs < numbers.bound < 1e-4
    assert 0 < numbers.bound_used < 1
    assert numbers.sqnr_db > 100
    assert numbers.cosine > 0.999999
    assert cell.stages["lower"] > 0
    assert json.loads(cell.to_json())["target"] == "xnnpack:fp32"


def test_from_module_leaves_the_given_module_alone() -> None:
    module = torch.nn.Linear(3, 2)
    case = Case.from_module("alone", module, (torch.randn(1, 3),))
    built = case.make()
    assert module.weight.requires_grad
    assert not built.module.get_parameter("weight").requires_grad
    assert torch.equal(built.module.get_parameter("weight"), module.weight)


def test_records_start_without_torch() -> None:
    code = (
        "import sys, harness, harness.record.folder; harness.Run; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_targets_are_known_without_torch() -> None:
    """Each run waits for the controller to read them before its workers start."""
    code = (
        "import sys; from harness import registry; "
        "found = [recipe for name in registry.names() for recipe in registry.backend(name).recipes]"
        "; assert found; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
