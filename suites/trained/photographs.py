"""Photographs of scikit-image and scikit-learn, as tensors of shape (1, 3, size, size)."""

from __future__ import annotations

import functools

import numpy as np
import torch
from PIL import Image

from suites.trained.packages import find_file, pin

REQUIRED = pin("scikit-image", "scikit-learn")

_FOLDERS = {"china.jpg": "sklearn/datasets/images", "flower.jpg": "sklearn/datasets/images"}


@functools.cache
def load_photograph(name: str) -> Image.Image:
    """Return a photograph by its file name, in RGB."""
    path = find_file(f"{_FOLDERS.get(name, 'skimage/data')}/{name}")
    with Image.open(path) as image:
        return image.convert("RGB")


def crop_square(image: Image.Image, size: int, share: float = 1.0) -> Image.Image:
    """Return the square in the middle, resized.

    Args:
        image: the photograph.
        size: the side of the result, in pixels.
        share: the side of the square, as a share of the photograph's shorter side.
    """
    side = min(image.size) * share
    left, top = ((length - side) / 2 for length in image.size)
    box = (left, top, left + side, top + side)
    return image.resize((size, size), Image.Resampling.BICUBIC, box=box)


def as_tensor(image: Image.Image, mean: float = 127.0, scale: float = 128.0) -> torch.Tensor:
    """Return an image as float32 of shape (1, 3, height, width): (value - mean) / scale."""
    pixels = torch.from_numpy(np.array(image, dtype=np.float32))
    return ((pixels - mean) / scale).permute(2, 0, 1).contiguous().unsqueeze(0)
