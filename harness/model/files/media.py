"""Images and audio as arrays, and how one is laid out for a model."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch

from harness.errors import InputError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
AUDIO = (".wav",)

# Pillow's modes that come as they are; another, such as a palette, is converted.
_MODES = {"L": "L", "RGB": "RGB", "RGBA": "RGBA", "1": "L", "LA": "RGBA", "PA": "RGBA"}


@dataclass(frozen=True)
class Array:
    """The content of an image or audio file.

    Attributes:
        tensor: an image is (height, width, channels), audio (channels, samples).
        kind: ``image`` or ``audio``.
    """

    tensor: torch.Tensor
    kind: str


def read_image(path: Path) -> Array:
    """Decode an image as it is stored: neither rotated, resized nor normalized.

    Raises:
        InputError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "images are read by Pillow; install it with: pip install pillow"
        ) from error
    with Image.open(path) as opened:
        if opened.mode.startswith("I;16"):
            pixels = numpy.asarray(opened).astype(numpy.uint16)
        else:
            has_alpha = "transparency" in opened.info
            mode = _MODES.get(opened.mode, "RGBA" if has_alpha else "RGB")
            pixels = numpy.array(opened.convert(mode))
    return Array(torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)), "image")


def read_audio(path: Path) -> Array:
    """Decode a ``.wav``: integers of 8 to 32 bits, or floats where SciPy is installed.

    Raises:
        InputError: it is cut short, or has floats and SciPy is not installed.
    """
    try:
        with wave.open(str(path), "rb") as opened:
            channels, width = opened.getnchannels(), opened.getsampwidth()
            declared = opened.getnframes() * channels * width
            data = opened.readframes(opened.getnframes())
    except (wave.Error, EOFError) as error:
        if "unknown format" not in str(error):
            raise InputError(f"it is no .wav, or cut short: {error}") from error
        return _audio_of_scipy(path)
    if len(data) != declared:
        raise InputError(f"it is cut short: {len(data)} bytes of samples, {declared} are declared")
    if width == 3:  # into the upper bytes of four
        wide = numpy.zeros((len(data) // 3, 4), numpy.uint8)
        wide[:, 1:] = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3)
        samples = wide.view("<i4").reshape(-1)
    else:
        samples = numpy.frombuffer(data, {1: "u1", 2: "<i2", 4: "<i4"}[width])
    return Array(_scale_samples(samples.reshape(-1, channels)), "audio")


def _audio_of_scipy(path: Path) -> Array:
    try:
        from scipy.io import wavfile
    except ImportError as error:
        raise InputError(
            "its samples are no plain integers, which SciPy reads; install it with: "
            "pip install scipy"
        ) from error
    samples = wavfile.read(path)[1]
    return Array(_scale_samples(samples.reshape(len(samples), -1)), "audio")


def _scale_samples(samples: numpy.ndarray) -> torch.Tensor:  # type: ignore[type-arg]  # any of wave's
    """Samples (time, channels) as float32 (channels, time), integers scaled to [-1, 1)."""
    wide = samples.astype(numpy.float64)
    if samples.dtype.kind == "u":
        wide = wide / 128 - 1
    elif samples.dtype.kind == "i":
        wide /= 2.0 ** (8 * samples.dtype.itemsize - 1)
    return torch.from_numpy(numpy.ascontiguousarray(wide.T, dtype=numpy.float32))


def fit_array(array: Array, like: torch.Tensor) -> torch.Tensor:
    """The array in the layout of a model's input, where that only takes moving and scaling it.

    An image becomes (channels, height, width) where the last three sizes say so. A single channel
    goes where there is no dimension for it. Dimensions of size 1 are added in front. Integers
    become floats by division by their largest value: 0 to 1. Nothing is resized, cropped or
    normalized: the program refuses an array that still does not fit.
    """
    tensor = array.tensor
    sizes = tuple(like.shape)
    if array.kind == "image":
        channels_first = tensor.movedim(-1, 0)
        if len(sizes) >= 3 and tensor.shape[-1] == sizes[-3] and tensor.shape[-1] != sizes[-1]:
            tensor = channels_first
        if len(sizes) == 2 and channels_first.shape[0] == 1:
            tensor = channels_first[0]
    elif len(sizes) == 1 and tensor.shape[0] == 1:
        tensor = tensor[0]
    tensor = tensor.reshape((1,) * (len(sizes) - tensor.dim()) + tuple(tensor.shape))
    if like.dtype.is_floating_point:
        whole = not tensor.dtype.is_floating_point
        scale = torch.iinfo(tensor.dtype).max if whole else 1
        tensor = (tensor.double() / scale).to(like.dtype)
    return tensor.contiguous()
