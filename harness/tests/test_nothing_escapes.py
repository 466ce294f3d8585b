"""run_cell returns a record for any behaviour of a case, and the next cell is not affected."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Case, CellOptions, run_cell
from harness.errors import CaseError, UsageError, describe
from harness.record.cell import Cell, Status
from harness.vendors.torch import _inductor


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def case(function: Any, name: str = "odd/one", **options: Any) -> Case:
    return Case(name, lambda: (Call(function), (torch.randn(3, 4),)), **options)


def leave(how: str) -> Any:
    if how == "exit":
        raise SystemExit(3)
    if how == "skip":
        pytest.skip("not today")
    if how == "generator":
        raise GeneratorExit
    raise BaseException("anything")


@pytest.mark.parametrize("how", ["exit", "skip", "generator", "anything"])
def test_no_exit_escapes_from_build_export_or_eager(how: str) -> None:
    built = run_cell(Case("odd/build", lambda: leave(how)), "null:eager")
    assert (built.status, built.stage) == (Status.FAILED, "build")
    is_exporting = torch.compiler.is_exporting
    exported = run_cell(case(lambda x: leave(how) if is_exporting() else x * 2), "null:eager")
    assert (exported.status, exported.stage) == (Status.FAILED, "export")
    eager = run_cell(case(lambda x: x * 2 if is_exporting() else leave(how)), "null:eager")
    assert (eager.status, eager.stage) == (Status.FAILED, "build")
    for cell in (built, exported, eager):
        assert cell.error
        assert Cell.from_json(cell.to_json()).error == cell.error


def test_a_keyboard_interrupt_does() -> None:
    def interrupt(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cell(case(interrupt), "null:eager")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fail(error: BaseException) -> Any:
    raise error


def circle() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize("error", [Mute(), circle(), ValueError("\udc80 alone")])
def test_any_error_can_be_recorded(error: BaseException) -> None:
    assert describe(error)
    cell = run_cell(case(lambda x: fail(error)), "null:eager")
    assert (cell.status, cell.stage) == (Status.FAILED, "build")
    assert Cell.from_json(cell.to_json()).error == cell.error


def test_tags_are_words_and_names_can_be_written() -> None:
    cell = run_cell(case(lambda x: x * 2, tags=frozenset({"a", 3, None})), "null:eager")  # type: ignore[arg-type]
    assert cell.tags == ["3", "None", "a"]
    with pytest.raises(CaseError, match="UTF-8"):
        case(lambda x: x, name="odd/\udc80")


def test_a_bad_place_to_save_is_one_clear_error(tmp_path: Path) -> None:
    options = CellOptions(save=tmp_path / "no" / "such.pte")
    with pytest.raises(UsageError, match=r"cannot save the program to .*: "):
        run_cell(case(lambda x: x * 2), "null:eager", options=options)


def test_a_backend_whose_availability_raises_is_unavailable() -> None:
    from backends.null import Null

    class Broken(Null):
        def availability(self) -> Any:
            raise OSError("driver")

    cell = run_cell(case(lambda x: x * 2), "null:eager", backend=Broken())
    assert cell.status is Status.UNAVAILABLE
    assert "driver" in str(cell.error)


def test_state_of_the_process_does_not_leak() -> None:
    def leak(x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        raise ValueError("after")

    before = (torch.get_default_dtype(), torch.is_grad_enabled(), torch.random.get_rng_state())
    run_cell(case(leak), "null:eager")
    run_cell(case(lambda x: x + torch.rand(3, 4)), "null:eager")
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2]), "the global generator is untouched"


def test_settings_that_a_module_makes_while_it_is_built_do_not_leak() -> None:
    def build() -> Any:
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True, warn_only=True)
        module = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
        quantize_(module, Int8WeightOnlyConfig())
        built.append(compiler.get_hash())
        return module, (torch.randn(3, 4),)

    built: list[bytes] = []
    compiler: Any = _inductor.config
    before = compiler.get_hash(), compiler.get_config_copy()
    run_cell(Case("odd/settings", build), "null:eager")
    assert built[0] != before[0], "torchao sets what it recommends"
    assert (compiler.get_hash(), compiler.get_config_copy()) == before
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_control_flow_that_fails_does_not_poison_the_next() -> None:
    def branches(x: torch.Tensor, other: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a * 2 + 1, other, (x,))

    for _ in range(2):
        broken = run_cell(case(lambda x: branches(x, lambda a: a[:1])), "null:eager")
        assert broken.status is Status.FAILED
        assert run_cell(case(lambda x: branches(x, lambda a: a - 3)), "null:eager").error is None


def test_eight_threads_get_the_verdicts_of_one() -> None:
    cells: dict[int, list[Cell]] = {}

    def work(number: int) -> None:
        target = ("null:eager", "portable:fp32", "xnnpack:fp32", "mlx:fp32")[number % 4]
        cells[number] = [
            run_cell(case(lambda x: torch.softmax(x, -1) @ x.T, f"thread/{turn}"), target)
            for turn in range(2)
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cells) == 8
    for row in cells.values():
        assert [cell.error for cell in row] == [None, None]
    bounds = {
        cell.numerics[0].bound for row in cells.values() for cell in row if "null" in cell.target
    }
    assert len(bounds) == 2, "one a case, whatever the thread"
