"""Selection of targets and cells: an unknown name is an error, never the default."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from harness.errors import UnknownTarget
from harness.model import registry
from harness.model.selection import parse_list, parse_targets
from harness.pytest_plugin.tests.sessions import ROOT, ended, environment, run
from harness.record.folder import RUN_FILE, load
from harness.record.target import Target


@pytest.fixture
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An installed distribution whose backend does not import, as environment variables."""
    site = tmp_path_factory.mktemp("site")
    (site / "conform_broken.py").write_text("raise ImportError('no libbroken.so')\n")
    info = site / "conform_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: conform-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[conform.backends]\nbroken = conform_broken:BACKEND\n")
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}


@pytest.mark.parametrize("targets", ["broken", "null:eager,broken"])
def test_a_backend_that_does_not_import_has_nothing_to_run(
    project: Path, broken: dict[str, str], targets: str
) -> None:
    result = run(project, "-n", "0", targets=targets, env=broken)
    assert result.returncode == 4, result.stdout
    assert "backend 'broken' has no recipes" in result.stderr
    assert "no libbroken.so" in result.stderr
    assert not (project / "run" / RUN_FILE).exists()


def test_conform_run_does_not_fall_back_to_the_default_targets(
    project: Path, broken: dict[str, str]
) -> None:
    command = ["run", "--targets", "broken", "-n", "0"]
    result = ended("harness.cli", command, project, {**environment(), **broken})
    assert result.returncode == 2, result.stdout
    assert "no libbroken.so" in result.stderr
    assert not (project / "runs").exists()


def test_a_named_recipe_of_a_broken_backend_is_reported_as_unavailable(
    project: Path, broken: dict[str, str]
) -> None:
    result = run(project, "-n", "0", targets="broken:fp32", env=broken)
    assert result.returncode == 1, result.stdout
    assert "backend broken was expected and is not available" in result.stdout
    assert {cell.status.value for cell in load(project / "run").cells} == {"unavailable"}


EMPTY = ["", " ", ",", "null:eager,", ",null:eager", "null:eager,,tosa"]


@pytest.mark.parametrize("targets", EMPTY)
def test_an_empty_name_is_an_error(targets: str) -> None:
    with pytest.raises(UnknownTarget, match="--targets has an empty name"):
        parse_list(targets, "--targets")


def _spelled(*texts: str) -> list[str]:
    return [str(target) for target in parse_targets(texts)]


def test_patterns_and_words_name_targets() -> None:
    assert _spelled("xnnpack:*") == [
        "xnnpack:fp32", "xnnpack:fp16", "xnnpack:bf16", "xnnpack:int8", "xnnpack:int8_per_tensor",
        "xnnpack:int8_dynamic",
        "xnnpack:int4", "xnnpack:int4_per_channel",
    ]  # fmt: skip
    assert _spelled("*:fp32") == [
        f"{name}:fp32" for name in "portable xnnpack mlx metal coreml openvino".split()
    ]
    assert _spelled("tosa:mxfp8*") == ["tosa:mxfp8_e4m3", "tosa:mxfp8_e5m2"]
    assert _spelled("m*:bf16", "mlx:b?16") == ["mlx:bf16", "metal:bf16"]
    assert _spelled("x*:fp32+cse") == ["xnnpack:fp32+cse"]
    assert parse_targets(["default"]) == registry.default_targets()
    assert set(_spelled("nightly")) - set(_spelled("default")) == {
        "mlx:bf16", "metal:bf16", "coreml:fp32", "coreml:fp16", "cortex_m:int8", "openvino:fp32",
    }  # fmt: skip
    everything = _spelled("all")
    assert {"tosa:mxfp4", "mlx:nvfp4", "metal:int4"} <= set(everything)
    assert Target("null", "eager") not in parse_targets(["all"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "xnpack",
            "unknown target 'xnpack'; targets are spelled backend:recipe; did you mean 'xnnpack'?",
        ),
        ("defualt", "did you mean 'default'?"),
        (
            "fp32",
            "'fp32' is a recipe; targets are spelled backend:recipe, and *:fp32 selects it on",
        ),
        ("xnpack:*", "no backend matches 'xnpack'; did you mean 'xnnpack'?"),
        ("*:fp33", "no recipe matches 'fp33'; did you mean 'fp32'?"),
        ("tosa:q*", "no recipe matches 'q*'; choose from fp, int, fp_1_1, bf16, int_1_1, int_u55"),
        ("xnnpack:fp23", "no recipe 'fp23'; did you mean 'fp32'?"),
        ("*:fp32+cze", "did you mean 'cse'?"),
        ("x*nn:fp!", "is not a pattern of targets"),
        ("", "choose from portable, xnnpack"),
    ],
)
def test_what_names_no_target_says_what_would(text: str, words: str) -> None:
    with pytest.raises(UnknownTarget, match=re.escape(words)):
        parse_targets([text])


@pytest.mark.parametrize("option", ["--targets", "--require-delegation"])
def test_an_empty_option_does_not_mean_the_default(project: Path, option: str) -> None:
    selected = None if option == "--targets" else "null:eager"
    result = run(project, "-n", "0", option, "", targets=selected)
    assert result.returncode == 4, result.stdout
    assert f"{option} has an empty name" in result.stderr
    assert not (project / "run" / RUN_FILE).exists()


def test_spaces_around_names_are_nothing(project: Path) -> None:
    result = run(project, "-n", "0", "-k", "add/a", targets=" null:eager , null ")
    assert result.returncode == 0, result.stdout + result.stderr
    assert load(project / "run").info.targets == ["null:eager"]


@pytest.mark.parametrize(
    ("targets", "demanded", "workers", "named"),
    [
        ("null:eager", "null:eager,portable:fp32", "0", "no cell is selected on portable:fp32"),
        # A plain run takes cases to the targets that they name; here none names this one.
        pytest.param(
            *(None, "null:eager", "0", "no cell is selected on null:eager"),
            marks=pytest.mark.nightly,
        ),
        (None, "null:eager", "1", "no cell is selected on null:eager"),
        ("null:eager", "broken", "0", "no libbroken.so"),
    ],
)
def test_delegation_is_demanded_of_selected_targets_only(
    project: Path,
    broken: dict[str, str],
    targets: str | None,
    demanded: str,
    workers: str,
    named: str,
) -> None:
    arguments = ("-n", workers, "-k", "add/a", "--require-delegation", demanded)
    result = run(project, *arguments, targets=targets, env=broken)
    assert result.returncode == 4, result.stdout + result.stderr
    assert named in result.stdout + result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    assert not (project / "run" / RUN_FILE).exists()
