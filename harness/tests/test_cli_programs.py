"""``conform show`` and ``conform exec`` of programs as their users type them."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from harness.cli import main
from harness.execution.any_program.tests.programs import CHAIN, emitted, mixed, nested

pytestmark = pytest.mark.filterwarnings("ignore")  # vendors' own


def conform(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.pte"
    path.write_bytes(mixed()[0])
    return path


def test_inspect_prints_the_contents_of_a_program(program: Path) -> None:
    result = conform("show", program)
    assert result.exit_code == 0, result.output
    for text in (
        "method forward", "float32 at most (6, 8)", "XnnpackBackend", "native", "MLXBackend",
        "emulated", "FullyConnected", "chain 0 (main)", "planned memory",
    ):  # fmt: skip
        assert text in result.output
    assert "chain 0 (main)" not in conform("show", program, "--no-program").output


def test_inspect_prints_json(program: Path) -> None:
    result = conform("show", program, "--json")
    found = json.loads(result.stdout)
    assert found["bytes"] == program.stat().st_size
    assert found["methods"][0]["delegates"][0]["runtime"] in ("native", "emulated")


def test_inspect_lists_constant_methods_separately(program: Path) -> None:
    program.write_bytes(nested())
    output = conform("show", program).output
    assert "method nested" in output
    assert "method get_max" not in output
    assert "int 7" in output


@pytest.mark.nightly
def test_exec_runs_files_of_inputs_in_turn_and_saves_the_outputs(program: Path) -> None:
    module = copy.deepcopy(mixed()[1])
    calls = [torch.randn(rows, 8) for rows in (3, 5)]
    files = []
    for number, call in enumerate(calls):
        files += ["--inputs", program.with_name(f"{number}.pt")]
        torch.save(call, files[-1])
    out = program.with_name("y.pt")
    result = conform("exec", program, *files, "--out", out)
    assert result.exit_code == 0, result.output
    assert "emulated (XnnpackBackend native, MLXBackend emulated)" in result.output
    assert "float32 (5, 4)" in result.output
    expected = [[module(call)] for call in calls]
    torch.testing.assert_close(torch.load(out), expected, rtol=1e-4, atol=1e-5)


def test_exec_draws_inputs_from_a_seed(program: Path) -> None:
    program.write_bytes(emitted("xnnpack:fp32"))
    outs = [program.with_name(f"{number}.safetensors") for number in range(3)]
    for out, seed in zip(outs, (0, 0, 1), strict=True):
        assert conform("exec", program, "--random", "--seed", seed, "--out", out).exit_code == 0
    first, second, third = (out.read_bytes() for out in outs)
    assert first == second != third


def test_exec_without_inputs_runs_a_method_that_takes_none(program: Path) -> None:
    program.write_bytes(nested())
    result = conform("exec", program, "--method", "get_max")
    assert result.exit_code == 0, result.output
    assert "int 7" in result.output


def test_an_error_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    whole = emitted("xnnpack:fp32")
    for name, data in {
        "whole.pte": whole,
        "cut.pte": whole[: len(whole) // 2],
        "text.pte": b"no program at all",
        "unknown.pte": emitted("mlx:fp32").replace(b"MLXBackend", b"NoBackends"),
    }.items():
        (tmp_path / name).write_bytes(data)
    torch.save(CHAIN.make().inputs[0].double(), tmp_path / "wrong.pt")
    for arguments, message in (
        (("show", "cut.pte"), "cut short"),
        (("exec", "cut.pte", "--random"), "cut short"),
        (("show", "text.pte"), "not an ExecuTorch program"),
        (("exec", "."), "is a folder"),
        (("exec", "none.pte"), "no such file"),
        (("exec", "unknown.pte", "--random"), "delegate 'NoBackends'"),
        (("exec", "whole.pte"), "takes float32 (3, 8); give --inputs FILE, or --random"),
        (("exec", "whole.pte", "--inputs", "wrong.pt"), "input 0 is float64 (3, 8)"),
        (("exec", "whole.pte", "--inputs", "none.pt"), "no such file"),
        (("exec", "whole.pte", "--random", "--inputs", "wrong.pt"), "give one of them"),
        (("exec", "whole.pte", "--random", "--method", "back"), "no method 'back'"),
        (("exec", "whole.pte", "--random", "--out", "y.csv"), "written as .pt"),
    ):
        paths = [tmp_path / one if "." in one else one for one in arguments]
        result = conform(*paths)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.stderr
        assert result.stderr.count("\n") == 1, result.stderr
        assert str(tmp_path) in result.stderr or "--random" in arguments


def test_an_unknown_delegate_is_inspected_too(tmp_path: Path) -> None:
    path = tmp_path / "unknown.pte"
    path.write_bytes(emitted("mlx:fp32").replace(b"MLXBackend", b"NoBackends"))
    result = conform("show", path)
    assert result.exit_code == 0
    assert "no: nothing here knows delegate 'NoBackends'" in result.output
