"""The public names, the sample of the contract, and start-up time, on which other tools rely."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import harness
from harness import Case, Target, backend_api, check, check_backend, execute, run_cell, trace
from harness.backend_api import past_defects

ROOT = Path(__file__).parents[2]


USERS = [
    "Built", "CROSS_BACKEND", "Call", "CallInputs", "Case", "CaseError", "Cell", "CellFolder",
    "CellOptions", "ConformError", "Delegation", "Exporter", "Found", "InputError", "Inputs",
    "KnownIssue", "Limitation", "LowerOptions", "Metric", "Numerics", "PassCase", "PassProperty",
    "ProgramError", "Reference", "Run", "Severity", "SharedCaseWork", "StageFailure", "Status",
    "Target", "Tester", "TracedNode", "UnsupportedProgram", "UsageError", "Verdict",
    "arguments", "check", "check_backend", "compute_reference", "execute",
    "is_installed_within", "registry", "run_cell", "trace", "with_divergence",
]  # fmt: skip
AUTHORS = [
    "AtenKernels", "Availability", "Backend", "BlockQuantizedTensor", "CanEmulate",
    "ChildProcess", "ClaimsOperators", "Defect", "DefectLog", "DelegateHandle", "DelegateLoader",
    "DelegatePayload",
    "DescribesPayloads", "Encoding", "Execution", "Expected", "GENERIC_SEMANTICS",
    "InspectedCell", "InspectsCells", "Interpreter", "Kernels", "KnownPass", "KnowsIssues",
    "KnowsLimitations", "LoadsDelegates", "LoadsKernels", "Lowered", "LoweringCode",
    "MemoryMeter", "MxProduct", "NamesLoweringCode", "OffersPasses", "OffersSettings",
    "OperatorClaim", "OperatorSemantics", "PayloadConstants", "Precision", "Program",
    "QuantizedMatmul", "Recipe",
    "ReferenceKernels", "ReportsConstants", "RuntimeKernels", "Script", "SelectsTargets",
    "Setting", "Specimen", "SpecimenKind", "describe", "describe_installed", "describe_unverified",
    "find_calibration_problem", "find_missing_kernels", "has_module", "installed_version",
    "is_conversion", "is_in_module", "is_sped_up", "list_core_operators",
    "list_native_backends", "list_operators", "make_program_pass",
    "make_quantizer_setting", "op_name", "past_defects", "plant_fault", "read_memory",
    "report_defect", "require_annotations", "run_native", "torch_dtype", "write_memory",
]  # fmt: skip


@pytest.mark.parametrize(("module", "names"), [(harness, USERS), (backend_api, AUTHORS)])
def test_the_public_names_are_these(module: ModuleType, names: list[str]) -> None:
    assert sorted(module.__all__) == names
    for name in names:
        is_alias = name in ("DelegateHandle", "DelegateLoader", "CallInputs")
        assert getattr(module, name).__doc__ or is_alias, name
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", AUTHORS)
def test_names_for_authors_of_backends_are_found_at_their_old_place(name: str) -> None:
    message = f"harness.{name} moved: import {name} from harness.backend_api"
    with pytest.warns(DeprecationWarning, match=re.escape(message)) as caught:
        found = getattr(harness, name)
    assert found is getattr(backend_api, name)
    assert caught[0].filename == __file__


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
            assert named.isdisjoint(ours - {*USERS, *AUTHORS}), (function.__name__, annotation)


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
        "import sys, harness, harness.backend_api, harness.record.folder; harness.Run; "
        "harness.backend_api.Recipe; assert 'torch' not in sys.modules"
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
