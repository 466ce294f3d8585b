"""Payloads as text: programs lowered here and elsewhere give the same lines."""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import pytest
import torch

from harness import Case, Target, Tester
from harness.backend_api import DelegatePayload
from harness.execution.any_program.delegate_runtimes import describe_payload
from harness.pipeline.explain.inspection import inspect
from harness.pipeline.route import lower

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own

CASE = Case(
    "test/layer",
    lambda: (torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), (torch.randn(3, 8),)),
)
TARGETS = ["xnnpack:fp32", "tosa:fp", "mlx:fp32", "metal:fp32"]


@functools.cache
def payload(target: str) -> DelegatePayload:
    tester = Tester(CASE, target)
    lower(tester)
    (found,) = tester.serialized.program.delegates
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_show_prints_the_program_that_inspect_reads_from_bytes(target: str) -> None:
    shown = [line.strip() for line in inspect(CASE, Target.parse(target))]
    lines = [line.strip() for line in describe_payload(payload(target))]
    assert len(lines) > 3
    # After execution, a listing has the shapes of results, and a name before its first line.
    missing = [line for line in lines if not any(line in one for one in shown)]
    allowed = sum(" <- " in line for line in lines) if target.startswith("mlx") else 0
    assert len(missing) <= allowed


def test_the_fused_clamp_of_a_node_is_listed() -> None:
    (node,) = [
        line for line in describe_payload(payload("xnnpack:fp32")) if "FullyConnected" in line
    ]
    assert node.endswith("output_min=0.0")


def test_a_missing_weight_is_reported() -> None:
    lines = list(describe_payload(replace(payload("xnnpack:fp32"), named_data={})))
    assert sum("not in the program" in line for line in lines) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_a_damaged_payload_costs_a_line(target: str) -> None:
    whole, draw = payload(target), random.Random(target)
    damaged = [whole.data[: draw.randrange(len(whole.data))] for _ in range(10)]
    for _ in range(10):
        data = bytearray(whole.data)
        for _ in range(8):
            data[draw.randrange(len(data))] = draw.randrange(256)
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        lines = list(describe_payload(replace(whole, data=data)))
        assert lines
        assert not any("\n" in line for line in lines)
        refused += "cannot be read" in lines[-1]
    assert refused >= 8


def test_a_delegate_that_no_backend_reads_is_reported() -> None:
    (line,) = describe_payload(DelegatePayload("NoBackend", b"", {}, {}))
    assert line == "nothing here reads payloads of NoBackend"
