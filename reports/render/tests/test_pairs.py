"""The same weights on two backends: bytes and outputs compared without torch."""

from __future__ import annotations

import io
import math
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.record.cell import CROSS_BACKEND, Cell, OutputValues, Status
from harness.record.program_data import Encoding
from reports.render import html, markdown, terminal
from reports.render.pairs import pairs, rows
from reports.tests.runs import cell, numerics, write

ARM, MLX = "tosa:mxfp8_e4m3", "mlx:mxfp8"
CODES, SCALES = bytes(range(64)), bytes([120, 121])


def encoded(codes: bytes = CODES, scales: bytes = SCALES, name: str = "weight") -> Encoding:
    return Encoding.of(name, "e4m3", 32, 64, codes, scales)


def made(target: str, *weights: Encoding, values: list[float] | None = None) -> Cell:
    return cell(
        "mxfp_shared/x",
        target,
        tags=[CROSS_BACKEND],
        encodings=list(weights or [encoded()]),
        outputs=[OutputValues(call=0, output=0, values=[3.0, 4.0] if values is None else values)],
        numerics=[numerics(model_sqnr_db=31.0)],
    )


def one(tmp_path: Path, *cells: Cell) -> tuple[str, ...]:
    (row,) = rows(write(tmp_path / "run", cells))
    return row


def test_equal_weights_and_outputs(tmp_path: Path) -> None:
    row = one(tmp_path, made(ARM), made(MLX))
    assert row == (
        "mxfp_shared/x", f"{ARM} and {MLX}", "bit for bit equal", "0", "0", "1",
        "31.0 dB and 31.0 dB",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (encoded(scales=bytes([120, 123])), "1 of 2 scales, by up to 2 exponents, 0 of 64 codes"),
        (encoded(codes=CODES[::-1]), "0 of 2 scales, 64 of 64 codes differ"),
        (encoded(name="other"), "encoded by one backend only: other, weight"),
        (encoded(codes=CODES[:32]), "weight: 64 and 32 bytes"),
        (msgspec.structs.replace(encoded(), block=16), "e4m3 in blocks of 32, 64 columns and"),
        (encoded(codes=CODES[::-1]).brief(), "weight differs; its bytes are not recorded"),
    ],
)
def test_differences_of_weights_are_described(tmp_path: Path, other: Encoding, text: str) -> None:
    assert text in one(tmp_path, made(ARM), made(MLX, other))[2]


def test_hashes_without_bytes_are_equal_or_not(tmp_path: Path) -> None:
    brief = encoded().brief()
    (pair,) = pairs(write(tmp_path / "run", [made(ARM, brief, encoded(name="b")),
                                             made(MLX, brief, encoded(name="b"))]))  # fmt: skip
    assert pair.weights.same


def test_outputs_are_measured(tmp_path: Path) -> None:
    row = one(tmp_path, made(ARM), made(MLX, values=[4.0, 3.0]))
    assert row[3:6] == ("1", "0.2828", "0.96")


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        ([0.0, 0.0], [0.0, 0.0], ("0", "0", "1")),
        ([0.0, 0.0], [1.0, 0.0], ("1", "∞", "0")),
        ([math.inf, 1.0], [math.inf, 1.0], ("0", "0", "1")),
        ([math.nan, 1.0], [math.nan, 1.0], ("0", "0", "1")),
        ([math.nan, 1.0], [0.0, 1.0], ("∞", "∞", "0")),
        ([1.0], [1.0, 2.0], ("output sizes differ", "–", "–")),
        ([], [], ("0", "0", "1")),
    ],
)
def test_odd_outputs(
    tmp_path: Path, left: list[float], right: list[float], shown: tuple[str, ...]
) -> None:
    assert one(tmp_path, made(ARM, values=left), made(MLX, values=right))[3:6] == shown


def test_a_cell_that_did_not_run_is_a_row(tmp_path: Path) -> None:
    failed = cell("mxfp_shared/x", MLX, tags=[CROSS_BACKEND], status=Status.FAILED, numerics=[])
    row = one(tmp_path, made(ARM), failed)
    assert row[2] == "encoded by one backend only: weight"
    assert row[3] == f"no outputs of {MLX}"


def test_other_cells_make_no_pairs(tmp_path: Path) -> None:
    plain = [untagged(made(target)) for target in (ARM, MLX)]
    run = write(tmp_path / "run", [*plain, made("tosa:mxfp4"), made(ARM)])
    assert pairs(run) == []


def untagged(item: Cell) -> Cell:
    return msgspec.structs.replace(item, case="other/x", tags=[])


def test_every_report_shows_them_where_there_are_any(tmp_path: Path) -> None:
    title = "The same weights on two backends"
    with_pairs = write(tmp_path / "with", [made(ARM), made(MLX)])
    without = write(tmp_path / "without", [cell()])
    for run, shown in ((with_pairs, True), (without, False)):
        out = io.StringIO()
        terminal.render(run, Console(file=out, width=200))
        for text in (out.getvalue(), markdown.render(run), html.render(run)):
            assert (title in text) is shown
            assert ("bit for bit equal" in text) is shown
