"""The inputs read from files, and the errors for files without inputs."""

from __future__ import annotations

import random
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from safetensors.torch import save_file

from harness.errors import InputError
from harness.model.files.input_files import read_inputs

X, Y = torch.randn(2, 3), torch.arange(4)


def saved(path: Path, value: Any) -> Path:
    torch.save(value, path)
    return path


@pytest.mark.parametrize(
    ("value", "args", "kwargs"),
    [
        (X, (X,), {}),
        ([X, 3], (X, 3), {}),
        ((X, [Y, None], {"a": 2.5}), (X, [Y, None], {"a": 2.5}), {}),
        ({"x": X, "flag": True}, (), {"x": X, "flag": True}),
        ({"args": (X,), "kwargs": {"y": Y}}, (X,), {"y": Y}),
        ({"1": Y, "0": X, "mask": Y}, (X, Y), {"mask": Y}),
        ([], (), {}),
    ],
)
def test_pt(tmp_path: Path, value: Any, args: Any, kwargs: Any) -> None:
    given = read_inputs(saved(tmp_path / "x.pt", value))
    torch.testing.assert_close(given, (args, kwargs), rtol=0, atol=0, allow_subclasses=False)


def test_arrays(tmp_path: Path) -> None:
    numpy.save(tmp_path / "x.npy", X.numpy().astype(">f4"))
    (found,), kwargs = read_inputs(tmp_path / "x.npy")
    assert torch.equal(found, X)
    assert kwargs == {}
    numpy.savez(tmp_path / "x.npz", X.numpy(), Y.numpy(), mask=Y.numpy())
    (first, second), kwargs = read_inputs(tmp_path / "x.npz")
    assert torch.equal(first, X)
    assert torch.equal(second, Y)
    assert torch.equal(kwargs["mask"], Y)


def test_safetensors_keep_types_that_numpy_lacks(tmp_path: Path) -> None:
    save_file({"0": X.bfloat16(), "bias": Y}, tmp_path / "x.safetensors")
    (found,), kwargs = read_inputs(tmp_path / "x.safetensors")
    assert torch.equal(found, X.bfloat16())
    assert torch.equal(kwargs["bias"], Y)


def wav(path: Path, width: int, samples: list[tuple[int, int]]) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(width)
        out.setframerate(16000)
        # Eight bits are unsigned in a .wav, more are signed.
        out.writeframes(
            b"".join(
                (value + (128 if width == 1 else 0)).to_bytes(width, "little", signed=width > 1)
                for pair in samples
                for value in pair
            )
        )
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_audio_is_channels_by_samples_between_minus_one_and_one(tmp_path: Path, width: int) -> None:
    top = 2 ** (8 * width - 1)
    samples = [(0, -top), (top // 2, top // 4), (-top // 2, 0)]
    (found,), _ = read_inputs(wav(tmp_path / "x.wav", width, samples))
    assert torch.equal(found, torch.tensor([[0, 0.5, -0.5], [-1, 0.25, 0]]))
    (flat,), _ = read_inputs(tmp_path / "x.wav", like=[torch.empty(1, 2, 3, dtype=torch.float16)])
    assert torch.equal(flat, found.half()[None])


def test_audio_of_floats_needs_scipy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wavfile = pytest.importorskip("scipy.io.wavfile")
    wavfile.write(tmp_path / "x.wav", 8000, numpy.float32([0.5, -0.25]))
    (found,), _ = read_inputs(tmp_path / "x.wav")
    assert torch.equal(found, torch.tensor([[0.5, -0.25]]))
    (mono,), _ = read_inputs(tmp_path / "x.wav", like=[torch.empty(2)])
    assert torch.equal(mono, found[0])
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(InputError, match="pip install scipy"):
        read_inputs(tmp_path / "x.wav")


def test_images_are_rows_by_columns_by_channels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = torch.randint(256, (4, 5, 3), dtype=torch.uint8)
    image.fromarray(pixels.numpy()).save(tmp_path / "rgb.png")
    (found,), _ = read_inputs(tmp_path / "rgb.png")
    assert torch.equal(found, pixels)
    (laid,), _ = read_inputs(tmp_path / "rgb.png", like=[torch.empty(1, 3, 4, 5, device="meta")])
    assert torch.equal(laid, (pixels.permute(2, 0, 1)[None].double() / 255).float())
    (last,), _ = read_inputs(
        tmp_path / "rgb.png", like=[torch.empty(1, 4, 5, 3, dtype=torch.uint8)]
    )
    assert torch.equal(last, pixels[None])
    image.fromarray(pixels[..., 0].numpy()).save(tmp_path / "gray.png")
    (gray,), _ = read_inputs(tmp_path / "gray.png")
    assert torch.equal(gray, pixels[..., :1])
    (plain,), _ = read_inputs(tmp_path / "gray.png", like=[torch.empty(4, 5, dtype=torch.uint8)])
    assert torch.equal(plain, pixels[..., 0])
    image.fromarray(pixels[..., 0].numpy()).convert("P").save(tmp_path / "palette.gif")
    (palette,), _ = read_inputs(tmp_path / "palette.gif")
    assert palette.shape == (4, 5, 3)
    deep = numpy.arange(20, dtype=numpy.uint16).reshape(4, 5) * 3000
    image.fromarray(deep).save(tmp_path / "deep.png")
    (deeper,), _ = read_inputs(tmp_path / "deep.png")
    assert torch.equal(deeper, torch.from_numpy(deep)[..., None])


def test_images_ask_for_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(InputError, match="pip install pillow"):
        read_inputs(tmp_path / "x.png")


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("executed",))


def nested() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("name", "write", "problem"),
    [
        ("x.pt", None, "there is no such file"),
        ("x", None, "not from a file without a suffix"),
        ("x.pte", None, "not from .pte"),
        ("x.pt", lambda path: path.mkdir(), "is a folder"),
        ("x.pt", lambda path: path.write_text("a text"), "no file of torch.save"),
        ("x.pt", lambda path: saved(path, torch.nn.Linear(2, 2)), "holds a torch.nn.modules"),
        ("x.pt", lambda path: saved(path, Evil()), "holds a .*print"),
        ("x.pt", lambda path: saved(path, {2: X}), "has the key 2"),
        ("x.pt", lambda path: saved(path, {"1": X}), "are 1; they count from 0"),
        ("x.pt", lambda path: saved(path, [[{"a": b"raw"}]]), r"input 0\[0\]\['a'\] is a bytes"),
        ("x.pt", lambda path: saved(path, nested()), "RecursionError"),
        ("x.npy", lambda path: numpy.save(path, [print]), "allow_pickle=False"),
        ("x.npy", lambda path: numpy.save(path, ["text"]), "has no dtype in torch"),
        ("x.npz", lambda path: path.write_bytes(b"PK"), "cannot be read"),
        ("x.safetensors", lambda path: path.write_bytes(b"x" * 99), "cannot be read"),
        ("x.wav", lambda path: path.write_bytes(b"RIFF"), "no .wav, or cut short"),
    ],
)  # fmt: skip
def test_a_file_without_inputs_is_a_one_line_error(
    tmp_path: Path, name: str, write: Callable[[Path], Any] | None, problem: str
) -> None:
    if write is not None:
        write(tmp_path / name)
    with pytest.raises(InputError, match=problem) as caught:
        read_inputs(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_cut_short_or_changed_are_read_or_refused(tmp_path: Path) -> None:
    saved(tmp_path / "x.pt", {"x": X, "y": [Y, 1]})
    numpy.save(tmp_path / "x.npy", X.numpy())
    numpy.savez(tmp_path / "x.npz", X.numpy(), mask=Y.numpy())
    save_file({"0": X}, tmp_path / "x.safetensors")
    wav(tmp_path / "x.wav", 2, [(1, 2)] * 40)
    draw = random.Random(0)
    refusals = []
    files = sorted(tmp_path.iterdir())
    for file in files:
        data = file.read_bytes()
        for _ in range(60):
            broken = bytearray(data[: draw.randrange(len(data))] if draw.random() < 0.5 else data)
            for _ in range(draw.randrange(3) if broken else 0):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            copy = tmp_path / f"copy{file.suffix}"
            copy.write_bytes(broken)
            try:
                read_inputs(copy)
            except InputError as error:
                refusals.append(str(error))
    assert len(refusals) > 30 * len(files)
    assert not any("\n" in refusal for refusal in refusals)
