"""The runtime's kernels for 4-bit weights: two codes a byte, the low half first."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

# Number of codes decoded at a time.
_DECODED = 2**20


def linear_4bit(
    activation: Tensor, packed: Tensor, group_size: int, scales: Tensor, offsets: Tensor
) -> tuple[Tensor]:
    """Compute ``activation @ weight.T`` with ``weight = code * scale + offset``.

    One row uses :func:`_vector`. Several rows use tiles of weights, decoded in the dtype of the
    activation, with float32 sums.

    Args:
        activation: (M, K).
        packed: (N, K / 2) uint8.
        group_size: codes that share a scale and an offset.
        scales: (N, K / group_size).
        offsets: (N, K / group_size).

    Returns:
        (M, N) in the dtype of the activation.
    """
    if activation.shape[0] == 1:
        return (_vector(activation, packed[None], group_size, scales[None], offsets[None]),)
    wide = activation.float()
    result = activation.new_empty(len(activation), len(packed))
    for rows in _blocks(len(packed), activation.shape[1]):
        codes = unpack(packed[rows])
        step, offset = (
            one[rows].repeat_interleave(group_size, -1)[:, : codes.shape[1]]
            for one in (scales, offsets)
        )
        # Product and sum are both rounded to the dtype, because the multiplied tile has it.
        weight = codes.to(activation.dtype) * step + offset
        result[:, rows] = wide @ weight.float().mT
    return (result,)


def gather_qmv(
    activation: Tensor,
    packed: Tensor,
    scales: Tensor,
    offsets: Tensor,
    experts: Tensor,
    group_size: int,
) -> tuple[Tensor]:
    """Compute ``weight[experts[i]] @ activation[i]`` for each row i of the result.

    Args:
        activation: (P, K).
        packed: (E, N, K / 2) uint8.
        scales: (E, N, K / group_size).
        offsets: (E, N, K / group_size).
        experts: (P) int32.
        group_size: codes that share a scale and an offset.

    Returns:
        (P, N) in the dtype of the activation.
    """
    at = experts.long()
    return (_vector(activation, packed[at], group_size, scales[at], offsets[at]),)


def unpack(packed: Tensor) -> Tensor:
    """Unpack bytes to uint8 codes; the last dimension doubles."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Return slices of a weight's rows that are decoded at a time."""
    step = max(1, _DECODED // max(1, width))
    return (slice(start, start + step) for start in range(0, rows, step))


def _vector(x: Tensor, packed: Tensor, group_size: int, scales: Tensor, offsets: Tensor) -> Tensor:
    """Multiply (P, K) by packed (P, N, K), and apply scale and offset to the sums of a group.

    Sums are float32. Only the sum that the offset multiplies first adds four values at a time in
    the dtype of ``x``.
    """
    rows, width = x.shape
    groups = scales.shape[-1]
    missing = groups * group_size - width
    padded = torch.nn.functional.pad(x, (0, missing))
    fours = padded.view(rows, groups, group_size // 4, 4)
    first = ((fours[..., 0] + fours[..., 1]) + fours[..., 2]) + fours[..., 3]
    totals = first.float().sum(-1)[:, None]
    values = padded.float().view(rows, groups, group_size)
    result = x.new_empty(rows, packed.shape[1])
    for some in _blocks(packed.shape[1], rows * width):
        codes = torch.nn.functional.pad(unpack(packed[:, some]).float(), (0, missing))
        codes = codes.view(rows, -1, groups, group_size)
        products = torch.einsum("pgk,pngk->png", values, codes)
        sums = scales[:, some].float() * products + offsets[:, some].float() * totals
        result[:, some] = sums.sum(-1)
    return result
