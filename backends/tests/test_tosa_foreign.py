"""TOSA payloads from other sources may crash the reference model, but not the harness."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch

from backends.tosa.reference import CHILD, load
from harness import Case, ProgramError, Tester
from harness.backend_api import DelegatePayload, Program
from harness.pipeline.route import lower


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x)) + 1


@pytest.fixture(scope="session")
def payload() -> bytes:
    tester = Tester(Case("test/layer", lambda: (Layer(), (torch.randn(2, 4),))), "tosa:fp")
    lower(tester)
    (delegate,) = Program(tester.program).delegates
    return delegate.data


def changed(payload: bytes, count: int) -> Iterator[bytes]:
    """Copies with one byte changed each, at places spread over the payload."""
    draw = random.Random(0)
    for _ in range(count):
        data = bytearray(payload)
        at = draw.randrange(8, len(data))
        data[at] ^= draw.randrange(1, 256)
        yield bytes(data)


def run(data: bytes) -> str:
    """Return the error of a call; empty if it returned."""
    try:
        load(DelegatePayload("TOSABackend", data, {}, {}))([torch.zeros(2, 4), torch.zeros(2, 3)])
    except ProgramError as error:
        return str(error)
    return ""


def test_changed_payloads_end_a_child_at_most(payload: bytes) -> None:
    assert run(payload) == ""
    ends = [run(data) for data in changed(payload, 40)]
    signals = [end for end in ends if "was ended by SIG" in end]
    assert signals, "none of them would have ended this process: the test shows nothing"
    assert any(end and end not in signals for end in ends)
    assert run(payload) == "", "the payload itself does not run any more"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xff" * 40,
        msgspec.msgpack.encode(["GraphStatus.TOSA_VALID", []]),
        msgspec.msgpack.encode(["GraphStatus.TOSA_VALID", [["<f4", [2, 3], b"1234"]]]),
        msgspec.msgpack.encode(["GraphStatus.TOSA_VALID", [["O", [2, 3], bytes(48)]]]),
    ],
)
def test_invalid_answers_of_the_child_process_are_refused(
    payload: bytes, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setattr(CHILD, "ask", lambda request, seconds: answer)
    assert "the reference model" in run(payload)


@pytest.mark.nightly
def test_a_rejected_graph_does_not_start_a_debugger(
    payload: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    debugger = tmp_path / "gdb"
    debugger.write_text(f"#!/bin/sh\ntouch {started}\n", encoding="utf-8")
    debugger.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    CHILD.close()
    assert run(payload) == ""
    rejected = [data for data in changed(payload, 40) if "Invalid TOSA graph" in run(data)]
    assert len(rejected) >= 5
    assert not started.exists()
    # Without the variable it is, so the assertion above can fail.
    monkeypatch.delenv("TOSA_MODEL_NO_BACKTRACE", raising=False)
    monkeypatch.setattr(CHILD._process, "_environment", {})
    CHILD.close()
    assert "Invalid TOSA graph" in run(rejected[0])
    assert started.exists()
    CHILD.close()


def test_a_rejected_graph_leaves_the_child(payload: bytes) -> None:
    rejected = next(data for data in changed(payload, 40) if "Invalid TOSA graph" in run(data))
    pid = CHILD.pid
    assert "Invalid TOSA graph" in run(rejected)
    assert CHILD.pid == pid
