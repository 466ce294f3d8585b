"""Pooling and resampling."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import CANCELS, add_vacuous_reasons, distinct, ints, op, randn, uniform
from suites.selection import take_turns

CASES: list[Case] = [
    op("max_pool2d_with_indices/plain", F.max_pool2d, distinct(2, 3, 8, 6), kernel_size=2),
    op("max_pool2d_with_indices/indices", F.max_pool2d, distinct(1, 2, 6, 8), kernel_size=2,
       return_indices=True),
    op("max_pool2d_with_indices/stride_asymmetric", F.max_pool2d, distinct(1, 3, 9, 8),
       kernel_size=(3, 2), stride=(2, 1)),
    op("max_pool2d_with_indices/padding_of_negatives", F.max_pool2d, uniform(-9, -1, 1, 2, 7, 5),
       kernel_size=3, stride=2, padding=1),
    op("max_pool2d_with_indices/padding_width", F.max_pool2d, uniform(-9, -1, 1, 2, 7, 6),
       kernel_size=3, stride=(1, 2), padding=(0, 1)),
    # A stride beyond the padding: the last windows leave more than the padding unread.
    op("max_pool2d_with_indices/unread_edge", F.max_pool2d, distinct(1, 2, 8, 7), kernel_size=3,
       stride=(4, 3), padding=1),
    op("max_pool2d_with_indices/dilation", F.max_pool2d, distinct(1, 2, 9, 8), kernel_size=3,
       stride=1, dilation=2),
    op("max_pool2d_with_indices/ceil_mode", F.max_pool2d, distinct(1, 2, 8, 7), kernel_size=3,
       stride=2, ceil_mode=True),
    op("max_pool2d_with_indices/channels_last", F.max_pool2d,
       distinct(2, 3, 8, 6).channels_last(), kernel_size=2),
    op("max_pool2d_with_indices/unbatched", F.max_pool2d, distinct(3, 8, 6), kernel_size=2),
    # The last window would begin behind the image.
    op("max_pool2d_with_indices/ceil_mode_gap", F.max_pool2d, distinct(1, 2, 9, 9), kernel_size=2,
       stride=3, ceil_mode=True),
    op("max_pool1d/stride_padding", F.max_pool1d, distinct(2, 3, 11), kernel_size=3, stride=2,
       padding=1),
    op("max_pool3d_with_indices/plain", F.max_pool3d, distinct(1, 2, 4, 6, 5), kernel_size=2),
    op("avg_pool2d/plain", F.avg_pool2d, randn(2, 3, 8, 6), kernel_size=2),
    op("avg_pool2d/overlapping", F.avg_pool2d, randn(1, 3, 8, 7), kernel_size=3, stride=(1, 2)),
    op("avg_pool2d/padding_counted", F.avg_pool2d, randn(1, 2, 7, 6), kernel_size=3, stride=2,
       padding=1),
    op("avg_pool2d/padding_height_counted", F.avg_pool2d, randn(1, 2, 7, 6), kernel_size=3,
       padding=(1, 0)),
    op("avg_pool2d/padding_width_counted", F.avg_pool2d, randn(1, 2, 7, 6), kernel_size=(2, 3),
       padding=(0, 1)),
    op("avg_pool2d/unread_edge", F.avg_pool2d, randn(1, 2, 8, 7), kernel_size=3, stride=(4, 3),
       padding=1),
    op("avg_pool2d/padding_not_counted", F.avg_pool2d, randn(1, 2, 7, 6), kernel_size=3, stride=2,
       padding=1, count_include_pad=False),
    op("avg_pool2d/ceil_mode", F.avg_pool2d, randn(1, 2, 8, 7), kernel_size=3, stride=2,
       ceil_mode=True),
    op("avg_pool2d/ceil_mode_padding", F.avg_pool2d, randn(1, 2, 8, 6), kernel_size=3, stride=2,
       padding=1, ceil_mode=True, count_include_pad=False),
    op("avg_pool2d/divisor", F.avg_pool2d, randn(1, 2, 6, 8), kernel_size=2, divisor_override=3),
    op("avg_pool2d/ceil_mode_divisor", F.avg_pool2d, randn(1, 3, 5, 5), kernel_size=2, stride=2,
       ceil_mode=True, divisor_override=3),
    op("avg_pool2d/unbatched", F.avg_pool2d, randn(3, 6, 8), kernel_size=2),
    op("avg_pool2d/channels_last", F.avg_pool2d, randn(2, 3, 6, 8).channels_last(),
       kernel_size=2),
    op("avg_pool1d/stride", F.avg_pool1d, randn(2, 3, 11), kernel_size=3, stride=2),
    op("avg_pool3d/plain", F.avg_pool3d, randn(1, 2, 4, 6, 5), kernel_size=2),
    op("_adaptive_avg_pool2d/global", F.adaptive_avg_pool2d, randn(2, 3, 5, 7), output_size=1),
    op("_adaptive_avg_pool2d/even_split", F.adaptive_avg_pool2d, randn(2, 3, 6, 8),
       output_size=(3, 2)),
    op("_adaptive_avg_pool2d/uneven_windows", F.adaptive_avg_pool2d, randn(1, 3, 7, 5),
       output_size=(3, 2)),
    op("_adaptive_avg_pool2d/channels_last", F.adaptive_avg_pool2d,
       randn(2, 3, 5, 7).channels_last(), output_size=1),
    op("adaptive_avg_pool1d/uneven_windows", F.adaptive_avg_pool1d, randn(2, 3, 10),
       output_size=4),
    op("_adaptive_avg_pool3d/global", F.adaptive_avg_pool3d, randn(1, 2, 3, 4, 5), output_size=1),
    op("adaptive_max_pool2d/global", F.adaptive_max_pool2d, distinct(2, 3, 5, 7), output_size=1),
    op("upsample_nearest2d/double", F.interpolate, randn(2, 3, 4, 5), scale_factor=2.0,
       mode="nearest"),
    op("upsample_nearest2d/uneven_size", F.interpolate, randn(1, 2, 4, 5), size=(7, 8),
       mode="nearest"),
    op("upsample_nearest2d/channels_last", F.interpolate, randn(2, 3, 4, 5).channels_last(),
       scale_factor=2.0, mode="nearest"),
    op("upsample_bilinear2d/double", F.interpolate, randn(2, 3, 4, 5), scale_factor=2.0,
       mode="bilinear", align_corners=False),
    op("upsample_bilinear2d/align_corners", F.interpolate, randn(1, 2, 4, 5), size=(7, 9),
       mode="bilinear", align_corners=True),
    op("upsample_bilinear2d/shrink", F.interpolate, randn(1, 2, 9, 8), size=(4, 5),
       mode="bilinear", align_corners=False),
    # Whole-pixel offsets would put a tap on the border between two cells.
    op("grid_sampler_2d/bilinear_zeros", F.grid_sample, randn(1, 2, 5, 6),
       uniform(-0.95, 0.95, 1, 3, 4, 2), align_corners=False),
    op("unfold/im2col", F.unfold, randn(1, 2, 6, 5), kernel_size=(3, 2), padding=1, stride=2),
    op("col2im/overlapping", F.fold, randn(1, 8, 12), output_size=(4, 5), kernel_size=2),
    op("pixel_shuffle/factor3", torch.pixel_shuffle, randn(2, 18, 3, 4), upscale_factor=3),
    op("pixel_shuffle/int64", torch.pixel_shuffle, ints(-99, 99, 1, 8, 2, 3), upscale_factor=2),
    op("pixel_unshuffle/factor2", torch.pixel_unshuffle, randn(2, 3, 4, 6), downscale_factor=2),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "_adaptive_avg_pool2d/global": CANCELS,
        "_adaptive_avg_pool3d/global": CANCELS,
    },
)

CASES = take_turns(CASES)
