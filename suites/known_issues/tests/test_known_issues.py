"""``conform check`` recognises issues of docs/limitations.md and docs/findings.md in models that
no suite contains; a similar failure with another cause gets no hint."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness import Cell, check
from harness.model.known_issues.known_issue import KnownIssue, find_known_issues
from harness.model.registry import known_issues
from harness.record.cell import Status
from harness.record.program_data import Divergence
from suites.known_issues.scripts import RECOGNISED, UNRECOGNISED

DOCS = Path(__file__).resolve().parents[3] / "docs"
NIGHTLY = pytest.mark.nightly


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class Masked(nn.Module):
    """An attention mask that is read by positions and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(4)[:, None] + 1
        allowed = mask[torch.arange(2)[:, None], places.T - 1]
        return self.layer(x).masked_fill(~allowed[..., None], 0.0)


class Halved(nn.Module):
    """Multiplies the result of a convolution by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halved: torch.Tensor = self.layer(x) * 0.5
        return halved


def _with_small_weights(layer: nn.Conv2d) -> nn.Conv2d:
    with torch.no_grad():
        layer.weight[2] *= 1e-7
        layer.bias[2] = -3.0  # type: ignore[index]
    return layer


IMAGE = torch.rand(1, 3, 32, 32)
LAST = torch.arange(8.0).reshape(1, 2, 2, 2).to(memory_format=torch.channels_last)
KNOWN = {
    "prelu behind a linear": (
        nn.Sequential(nn.Linear(8, 8), nn.PReLU()), (torch.randn(2, 8),), "xnnpack:fp32",
        "ChannelsLastTaggedReshapePass",
    ),
    "channels-last convolution": (
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()), (IMAGE,), "metal:fp32",
        "layout optimization",
    ),
    "mask with an int scalar": (
        Masked(), (torch.randn(2, 4, 8), torch.ones(2, 4, dtype=torch.bool)), "xnnpack:int8",
        "_convert_scalars_to_attrs",
    ),
    "cat of channels-last images": (
        Of(lambda x: torch.cat([x, x], 1)), (LAST,), "portable:fp32", "op_cat.cpp",
    ),
    "tanh-gelu": (
        Of(lambda x: nn.functional.gelu(3 * x, approximate="tanh")), (torch.randn(4, 8),),
        "xnnpack:fp32", "GeluVisitor",
    ),
    "channel of small weights": (
        _with_small_weights(nn.Conv2d(3, 4, 1)), (0.1 * torch.randn(1, 3, 8, 8),),
        "cortex_m:int8", "CortexMQuantizer have no `eps`",
    ),
    "state": (
        Of(lambda x: torch.var(x)), (torch.randn(3, 4),), "tosa:int", "DecomposeVarPass",
    ),
    "descending sort": (
        Of(lambda x: torch.sort(x, descending=True)[0]), (torch.randn(3, 5),), "mlx:fp32",
        "_sort_handler",
    ),
    "layer norm of wide rows in 16 bits": (
        nn.LayerNorm(512).half(), (torch.randn(3, 512).half(),), "portable:fp32", "16 bits",
    ),
    "root of small values in 16 bits": (
        Of(lambda x: torch.rsqrt(x + 0.001)), (torch.rand(3, 40) * 0.02,), "tosa:int16",
        "16-bit tables",
    ),
    "convolution of an image without a batch": (
        Halved(), (torch.randn(3, 8, 7),), "tosa:int", "FoldScalarMulIntoConvPass, run before",
    ),
    "where of booleans": (
        Of(lambda x, y: torch.where(x > 0, y, x > -1)), (torch.randn(4, 5), torch.randn(4, 5)),
        "tosa:int", "Arm takes booleans",
    ),
    "large integers": (
        Of(lambda x: x.flip(0)), (torch.tensor([16777217, 33554435], dtype=torch.int32),),
        "tosa:fp", "Arm rounds large integers",
    ),
    "bool as a bound": (
        Of(lambda x: torch.clamp(x, max=True)), (torch.randn(4),), "xnnpack:fp32",
        "clamp whose bound is a bool",
    ),
}  # fmt: skip
BY_DAY = ("prelu behind a linear", "channels-last convolution", "mask with an int scalar")


@pytest.mark.parametrize(
    "name", [name if name in BY_DAY else pytest.param(name, marks=NIGHTLY) for name in KNOWN]
)
def test_a_known_issue_is_recognised_in_another_model(name: str) -> None:
    module, inputs, target, cause = KNOWN[name]
    (cell,) = check(module, inputs, [target])
    assert cell.status.is_red
    assert cause in cell.known_issues[0].cause
    assert len(cell.known_issues) == 1
    assert str(cell.known_issues[0]).startswith(cell.known_issues[0].cause.rstrip("."))
    where = cell.first_divergence or cell.defects[0]
    assert where.node
    assert where.op
    assert where.source


def cell(target: str, stage: str, error: str, op: str, *arguments: str, **changes: Any) -> Cell:
    status = Status.MISMATCH if stage == "compare" else Status.FAILED
    node = Divergence(node="n", op=op, arguments=arguments, fails=stage != "compare")
    fields = {"case": "c", "target": target, "status": status, "stage": stage, "error": error}
    return Cell(**{**fields, "first_divergence": node, **changes})


OFF = "call 0 output 0: 3 of 8 elements exceed the bound, at [0] got 1, expected 2"
INDICES = "IndexError: tensors used as indices must be long, int, byte or bool tensors"
ALIKE = {
    # The model itself indexes by computed integers: the exported graph has integers.
    "indices that are whole": cell(
        "xnnpack:int8", "quantize", INDICES, "aten.index.Tensor", "bool[2, 4]", "[int64[2, 1]]"
    ),
    "indices of another target": cell(
        "tosa:int", "quantize", INDICES, "aten.index.Tensor", "bool[2]", "[float32[2]]"
    ),
    "exact gelu": cell(
        "xnnpack:fp32", "compare", OFF, "aten.gelu.default", "float32[4]", "approximate='none'"
    ),
    "contiguous cat": cell("portable:fp32", "compare", OFF, "aten.cat.default", "[float32[4]]"),
    "ascending sort": cell(
        "mlx:fp32", "compare", OFF, "aten.neg.default", "float32[3, 5]"
    ),
    "finite exponential": cell(
        "xnnpack:fp32", "compare", OFF, "aten.exp.default", "float32[4]"
    ),
    "sum of a vector that ends the process": cell(
        "portable:fp32", "run", "the process was ended by SIGABRT", "aten.sum.dim_IntList",
        "float32[8]", status=Status.CRASHED,
    ),
    "another assertion of the pass": cell(
        "xnnpack:fp32", "lower", "AssertionError: no such tag", "aten.prelu.default", "float32[2]"
    ),
    "clamp by numbers": cell(
        "xnnpack:fp32", "lower", "CalledProcessError: flatc", "aten.clamp.default", "float32[4]",
        "None", "1.0",
    ),
    "another kernel's refusal": cell(
        "portable:fp32", "run", "method->execute() failed with error 0x12; the runtime says: Check "
        "failed (out of memory) (op_add.cpp:12)", "aten.add.out", "float32[4]", "float32[4]",
    ),
    "integers on MLX": cell(
        "mlx:fp32", "compare", OFF, "aten.lt.Scalar", "int32[3]", "2"
    ),
    "linear on XNNPACK": cell(
        "xnnpack:fp32", "compare", OFF, "aten.linear.default", "float32[4, 8]", "float32[8, 8]"
    ),
    "no node and a common error": cell(
        "xnnpack:fp32", "run", "method->execute() failed with error 0x12", "", first_divergence=None
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_a_similar_failure_gets_no_hint(name: str) -> None:
    assert find_known_issues(ALIKE[name], known_issues()) == []


def issue_of(text: str) -> KnownIssue:
    found = [issue for issue in known_issues() if text in issue.cause]
    assert found, text
    return found[0]


def test_each_finding_is_recognised_or_has_a_reason_why_it_cannot_be() -> None:
    scripts = {
        path.stem
        for path in (DOCS / "findings").glob("*.py")
        if "__main__" in path.read_text()
    }  # fmt: skip
    assert scripts == RECOGNISED.keys() | UNRECOGNISED.keys()
    assert not RECOGNISED.keys() & UNRECOGNISED.keys()
    for text in RECOGNISED.values():
        issue_of(text)


def test_findings_and_workarounds_are_those_of_the_page() -> None:
    page = " ".join((DOCS / "findings.md").read_text().split()).lower()
    for name, text in RECOGNISED.items():
        issue = issue_of(text)
        if issue.link.startswith("docs/findings.md#"):
            assert f"## {issue.cause}".lower() in page
        (section,) = (part for part in page.split(" ## ") if f"({f'findings/{name}.py'})" in part)
        if issue.workaround:
            assert issue.workaround.lower() in section, (name, issue.workaround)


def test_causes_are_copied_from_limitations() -> None:
    """Each cause is written down once; docs/limitations.md is generated from the same text."""
    table = (DOCS / "limitations.md").read_text()
    for issue in known_issues():
        if not issue.link.startswith("docs/findings.md#"):
            assert issue.cause.replace("|", "\\|") in table


def test_every_sign_is_a_pattern() -> None:
    for issue in known_issues():
        for pattern in (issue.error, issue.arguments, issue.frame):
            re.compile(pattern)
