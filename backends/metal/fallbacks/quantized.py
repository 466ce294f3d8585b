"""4-bit weights as the runtime's kernels unpack them: two to a byte, the low half first."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_4bit(
    activation: Tensor, packed: Tensor, group_size: int, scales: Tensor, offsets: Tensor
) -> tuple[Tensor]:
    """``activation @ weight.T`` with ``weight = code * scale + offset``.

    One row takes the path of :func:`_vector`; more take tiles of weights decoded in the dtype
    of the activation, with float32 sums.

    Args:
        activation: (M, K).
        packed: (N, K / 2) uint8.
        group_size: codes that share a scale and an offset.
        scales: (N, K / group_size).
        offsets: (N, K / group_size).

    Returns:
        (M, N) in the dtype of the activation.
    """
    codes = unpack(packed)
    if activation.shape[0] == 1:
        return (_vector(activation, codes[None], group_size, scales[None], offsets[None]),)
    width = codes.shape[-1]
    step, offset = (one.repeat_interleave(group_size, -1)[..., :width] for one in (scales, offsets))
    # Product and sum are both rounded to the dtype: the tile that is multiplied has it.
    weight = codes.to(activation.dtype) * step + offset
    return ((activation.float() @ weight.float().mT).to(activation.dtype),)


def gather_qmv(
    activation: Tensor,
    packed: Tensor,
    scales: Tensor,
    offsets: Tensor,
    experts: Tensor,
    group_size: int,
) -> tuple[Tensor]:
    """Row i of the result is ``weight[experts[i]] @ activation[i]``.

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
    codes = unpack(packed)[at]
    return (_vector(activation, codes, group_size, scales[at], offsets[at]),)


def unpack(packed: Tensor) -> Tensor:
    """Codes of the last dimension, uint8, twice as many as bytes."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def _vector(x: Tensor, codes: Tensor, group_size: int, scales: Tensor, offsets: Tensor) -> Tensor:
    """(P, K) by (P, N, K): scale and offset meet the sums of a group, not each code.

    Sums are float32, but the sum that the offset is multiplied by starts with four values at a
    time in the dtype of ``x``.
    """
    rows, width = x.shape
    groups = scales.shape[-1]
    missing = groups * group_size - width
    padded = torch.nn.functional.pad(x, (0, missing))
    codes = torch.nn.functional.pad(codes, (0, missing)).view(rows, -1, groups, group_size)
    fours = padded.view(rows, groups, group_size // 4, 4)
    first = ((fours[..., 0] + fours[..., 1]) + fours[..., 2]) + fours[..., 3]
    totals = first.float().sum(-1)
    values = padded.float().view(rows, groups, group_size)
    products = torch.einsum("pgk,pngk->png", values, codes.float())
    result = (scales.float() * products + offsets.float() * totals[:, None]).sum(-1)
    return result.to(x.dtype)
