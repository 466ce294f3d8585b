"""Claims are those of the vendors' registries, as they are now, and a run keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Case, Target, run_cell
from harness.backend_api import ClaimsOperators, OperatorClaim, list_core_operators
from harness.coverage.claims import find_claims_file, read_claims
from harness.coverage.vendor_claims import complete_claims, record_claims
from harness.errors import ConformError
from harness.model import registry
from harness.record.folder import load
from harness.record.host import Environment
from harness.record.recorder import Recorder
from harness.record.run import Run, RunInfo
from harness.vendors.quiet import quiet_vendors
from harness.vendors.versions import installed_version

TARGETS = ("portable:fp32", "xnnpack:fp32", "xnnpack:int8_dynamic", "tosa:fp", "tosa:int",
           "tosa:int_u55", "mlx:fp32", "metal:fp32", "coreml:fp32", "vgf:fp", "openvino:fp32",
           "cortex_m:int8")  # fmt: skip


def ask(target: str) -> dict[str, OperatorClaim]:
    backend, recipe = target.split(":")
    found = registry.backend(backend)
    assert isinstance(found, ClaimsOperators)
    if backend == "openvino":
        pytest.importorskip("openvino")
    with quiet_vendors():
        return dict(found.claim_operators(found.recipes[recipe]))


@pytest.mark.parametrize("target", TARGETS)
def test_each_claim_is_an_operator_of_this_process(target: str) -> None:
    claims = ask(target)
    assert len(claims) > 3
    for name, claim in claims.items():
        namespace, base, overload = name.split(".")
        assert getattr(getattr(getattr(torch.ops, namespace), base), overload, None), name
        assert claim.source, name
        for dtype in claim.dtypes or ():
            assert isinstance(getattr(torch, dtype), torch.dtype)


class Layer(torch.nn.Module):
    """A layer whose operators all targets delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(self.layer(x)) + x


@pytest.mark.parametrize("target", ["xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32"])
def test_delegated_operators_are_claimed(target: str) -> None:
    case = Case.from_module("sum", Layer(), (torch.randn(2, 4),))
    calls = run_cell(case, Target.parse(target), seed=0).delegation.calls
    delegated = {call.op for call in calls if call.delegated}
    assert len(delegated) >= 3
    spellings = {each: name for name, names in list_core_operators().items() for each in names}
    claimed = {spellings.get(name, name) for name in ask(target)}
    assert {spellings.get(name, name) for name in delegated} <= claimed


def test_a_program_of_kernels_alone_calls_claimed_operators() -> None:
    case = Case.from_module("sum", Layer(), (torch.randn(2, 4),))
    calls = run_cell(case, Target.parse("portable:fp32"), seed=0).delegation.calls
    assert calls
    assert {call.op for call in calls} <= ask("portable:fp32").keys()


def test_a_claim_ends_with_the_entry_in_the_registry() -> None:
    claims = ask("mlx:fp32")
    from executorch.backends.mlx.builder.op_registry import REGISTRY

    abs_op = torch.ops.aten.abs.default
    handler = REGISTRY._handlers[abs_op]
    REGISTRY.unregister(abs_op)
    try:
        assert claims.keys() - ask("mlx:fp32").keys() == {"aten.abs.default"}
    finally:
        REGISTRY.register(abs_op)(handler)


def test_xnnpack_claims_what_the_configurations_of_a_partitioner_take() -> None:
    from executorch.backends.xnnpack.partition.config import AbsConfig, LinearConfig
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    from backends.xnnpack.claims import list_claims

    made: Callable[..., Any] = XnnpackPartitioner
    claims = list_claims([made(configs=[AbsConfig, LinearConfig])])
    assert {name: (each.quantized, each.source) for name, each in claims.items()} == {
        "aten.abs.default": (False, "AbsConfig"),
        "aten.linear.default": (True, "LinearConfig"),
    }
    assert claims["aten.abs.default"].dtypes == ("float32", "float16")
    bfloat16 = list_claims([made(configs=[AbsConfig], enable_bf16=True)])
    assert bfloat16["aten.abs.default"].dtypes == ("float32", "float16", "bfloat16")
    dynamic = ConfigPrecisionType.DYNAMIC_QUANT
    assert list_claims([made(configs=[AbsConfig], config_precisions=dynamic)]) == {}


def test_tosa_claims_differ_by_profile() -> None:
    floating, integer, u55 = (ask(target) for target in ("tosa:fp", "tosa:int", "tosa:int_u55"))
    assert "aten.div.Tensor" in floating.keys() - integer.keys()
    assert integer["aten.add.Tensor"].quantized
    assert u55.keys() < integer.keys()


def test_metal_claims_kernels_to_which_inductor_leaves_an_operator() -> None:
    claims = ask("metal:fp32")
    for name in ("aten.topk.default", "aten.mm.default", "aten.convolution.default"):
        assert claims[name].source == "the delegate's kernels", name
    assert claims["aten.sin.default"].dtypes
    assert "float64" not in claims["aten.sin.default"].dtypes
    assert "aten.cumsum.default" not in claims, "Inductor calls a kernel that Metal lacks"


def write_run(folder: Path, target: str = "xnnpack:fp32", **packages: str) -> Run:
    case = Case.from_module("sum", Layer(), (torch.randn(2, 4),))
    cell = run_cell(case, Target.parse(target), seed=0)
    recorder = Recorder(folder, RunInfo(environment=Environment(packages=packages)))
    recorder.expect([cell.id], {})
    recorder.record(cell)
    recorder.close(0, [], complete=True)
    return load(folder)


def test_claims_are_written_once_a_recipe(tmp_path: Path) -> None:
    for target in ("xnnpack:fp32", "xnnpack:fp32+lift", "portable:fp32", "null:eager"):
        record_claims(tmp_path, Target.parse(target))
    record_claims(tmp_path, Target.parse("metal:fp32/xnnpack:fp32"))  # no recipe of its own
    claims = read_claims(tmp_path)
    assert claims.keys() == {"null:eager", "portable:fp32", "xnnpack:fp32"}
    assert claims["xnnpack:fp32"].operators == ask("xnnpack:fp32")
    assert claims["xnnpack:fp32"].packages.keys() >= {"executorch", "torch"}
    assert claims["null:eager"].operators is None
    assert claims["portable:fp32"].kernels
    assert not claims["xnnpack:fp32"].kernels
    assert "aten.view_copy.default" in claims["xnnpack:fp32"].core["aten.view.default"]
    assert "aten.sym_size.int" not in claims["xnnpack:fp32"].core


def test_an_error_of_a_vendors_registry_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, recipe: object) -> None:
        raise AttributeError("no registry")

    monkeypatch.setattr(type(registry.backend("xnnpack")), "claim_operators", fail)
    record_claims(tmp_path, Target.parse("xnnpack:fp32"))
    claims = read_claims(tmp_path)["xnnpack:fp32"]
    assert claims.operators is None
    assert "no registry" in claims.problem


def test_damaged_claims_are_an_error(tmp_path: Path) -> None:
    record_claims(tmp_path, Target.parse("null:eager"))
    path = find_claims_file(tmp_path, Target.parse("null:eager"))
    path.write_text(path.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(ConformError, match="version 2"):
        read_claims(tmp_path)
    path.write_text("{")
    with pytest.raises(ConformError, match=r"null-eager\.json"):
        read_claims(tmp_path)


def test_claims_of_a_run_without_any_are_asked_of_the_same_release_only(tmp_path: Path) -> None:
    run = write_run(tmp_path / "same", executorch=installed_version())
    assert read_claims(run.path) == {}
    assert complete_claims(run, []) == []
    assert read_claims(run.path).keys() == {"xnnpack:fp32"}
    assert complete_claims(run, ["xnnpack:fp32"]) == []
    other = write_run(tmp_path / "other", executorch="0.1")
    (remark,) = complete_claims(other, [])
    assert "executorch 0.1" in remark
    assert read_claims(other.path) == {}
