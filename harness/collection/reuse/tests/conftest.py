"""A project with one small suite, for tests that start pytest."""

from pathlib import Path

import pytest

from harness.collection.tests.sessions import new_project

SUITE = """
import os, signal
import torch
from harness.case import Case

class Add(torch.nn.Module):
    def forward(self, x):
        return x + x

class Fails(Add):
    def forward(self, x):
        raise ValueError("never right")

class Dies(Add):
    def forward(self, x):
        if os.environ.get("DIES_NOW"):
            os.kill(os.getpid(), signal.SIGKILL)
        return x + x

def case(name, module=Add):
    return Case(name, lambda: (module(), (torch.randn(2, 3),)), untelling="")

CASES = [case("add/a"), case("add/b"), case("dies", Dies), case("add/c")]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = new_project(tmp_path)
    (folder / "suites" / "small.py").write_text(SUITE)
    return folder
