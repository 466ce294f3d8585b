"""Importing one module of harness prints nothing else than what is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.execution.native import runtime_log

SCRIPT = """
import torch
from harness import Case, run_cell
case = Case("linear/some", lambda: (torch.nn.Linear(8, 4), (torch.randn(2, 8),)))
print(run_cell(case, "xnnpack:fp32").status.value)
"""


# Only Python 3.13.0 gets this warning of torch.
PYTHONS_OWN = ("-W", "ignore:Guards may run slower on Python:RuntimeWarning")


@pytest.mark.nightly
def test_a_module_from_python_is_quiet() -> None:
    root = Path(__file__).parents[3]
    env = {**os.environ, "PYTHONPATH": str(root)}
    env.pop("PYTHONWARNINGS", None)
    done = subprocess.run(
        [sys.executable, *PYTHONS_OWN, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert done.stdout == "passed\n"
    assert done.stderr == ""


def test_only_messages_about_processors_are_suppressed(capfd: object) -> None:
    assert hasattr(capfd, "readouterr")
    runtime_log._IS_FIRST_LOAD[:] = [True]
    with runtime_log.filter_first_load_messages():
        os.write(2, b"[cpuinfo_utils.cpp:71] Reading file\n[method.cpp:12] no kernel\n")
    assert capfd.readouterr().err == "[method.cpp:12] no kernel\n"
    with runtime_log.filter_first_load_messages():
        os.write(2, b"[cpuinfo_utils.cpp:71] said once\n")
    assert "said once" in capfd.readouterr().err
