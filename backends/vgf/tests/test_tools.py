"""The backend says what is missing, without raising, and finds its tools beside the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.vgf import tools
from backends.vgf.backend import BACKEND, Vgf
from backends.vgf.tests.requirements import needs_runtime
from harness.vendors import replacements

CHECKS = (
    tools.find_converter_problem,
    tools.find_execution_problem,
    tools.find_driver,
    tools.describe_driver,
    tools._find_layers,
)


@pytest.fixture(autouse=True)
def fresh_checks() -> None:
    for check in CHECKS:
        check.cache_clear()
    BACKEND.availability.cache_clear()


def test_without_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("MODEL_CONVERTER_PATH", raising=False)
    state = Vgf().availability()
    assert not state.available
    assert not state.can_lower
    assert tools.INSTALL_PACKAGES in state.reason
    assert tools.INSTALL_PACKAGES in tools.find_execution_problem()
    with pytest.raises(RuntimeError, match="not installed"):
        tools.make_environment()


def test_a_converter_that_does_not_start_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    converter = tmp_path / "model-converter"
    converter.write_text("#!/bin/sh\necho 'GLIBC_2.38 not found' >&2\nexit 1\n")
    converter.chmod(0o755)
    monkeypatch.setenv("MODEL_CONVERTER_PATH", str(converter))
    assert "does not start (GLIBC_2.38 not found)" in tools.find_converter_problem()
    converter.write_text("not a program")
    tools.find_converter_problem.cache_clear()
    assert "does not start" in tools.find_converter_problem()


@needs_runtime
def test_without_a_driver_it_can_lower_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "_DRIVER_FOLDERS", (str(tmp_path),))
    state = Vgf().availability()
    assert not state.available
    assert state.can_lower
    assert tools.INSTALL_DRIVER in state.reason


@needs_runtime
def test_the_driver_is_named() -> None:
    assert BACKEND.availability().tools.startswith("lavapipe of Mesa 2")


@needs_runtime
def test_the_packaged_converter_is_used_unless_another_one_is_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from executorch.backends.arm.vgf import backend as vendor

    name = "require_model_converter_executable"
    packaged = tools.find_tool("model_converter", "model-converter")
    replacements.undo_replacements("vgf.", name)
    other = tmp_path / "model-converter"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.provide_converter()
    assert getattr(vendor, name)() == other
    monkeypatch.setenv("PATH", "")
    for _ in range(2):  # replaced once
        tools.provide_converter()
    assert getattr(vendor, name)() == packaged
    assert sum(each.name == name for each in replacements.list_replacements()) == 1
    replacements.undo_replacements("vgf.", name)
    with pytest.raises(RuntimeError, match="model converter"):
        getattr(vendor, name)()
