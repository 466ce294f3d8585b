"""Commands with piped output print progress now and then."""

from __future__ import annotations

import re
import time

import pytest

from harness.cli import common


def test_a_pipe_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "EVERY_SECONDS", 0.05)
    with common.progress("loading net.py") as say:
        time.sleep(0.12)
        say("1 of 2: net@xnnpack:fp32: lower")
        time.sleep(0.12)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert re.fullmatch(r"\d+ s: loading net.py", lines[0])
    assert re.fullmatch(r"\d+ s: 1 of 2: net@xnnpack:fp32: lower", lines[-1])
    time.sleep(0.12)
    assert capsys.readouterr().err == ""  # it is over


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with common.progress("loading net.py") as say:
        say("1 of 1: net@portable:fp32")
    assert capsys.readouterr().err == ""
