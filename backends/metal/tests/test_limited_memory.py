"""Emulated Metal kernels in a process whose memory is limited, as with ``-n 0``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.pytest_plugin.tests.sessions import environment

LIMITED = """
import torch
from harness import Case, Target, run_cell
from harness.workers.memory import limit_allocations

case = Case.from_module("add", torch.nn.Softplus(), (torch.randn(4),))
with limit_allocations(4 << 30):
    print(run_cell(case, Target.parse("metal:fp32")).error)
"""


@pytest.mark.nightly
def test_kernels_run_where_less_memory_is_allowed_than_they_reserve_address_space() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "may not map" not in done.stdout
