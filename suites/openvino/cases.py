"""What a delegate for OpenVINO's CPU plugin may get wrong and the general suites do not show.

All of them are nightly. ``openvino:default`` computes as the processor chooses, perhaps in
bfloat16; its cases have neither an operator without rounding nor a jump behind one
(``CHOSEN`` in backends/openvino/precision.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import ints, nn_case, op, randn

_FLOAT = "openvino:fp32"
_STATIC = "openvino:int8|openvino:int8_mixed|openvino:int8_transformer"


class _SumAndCopy(torch.nn.Module):
    """Returns its input beside a computed value."""

    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, x.clone()


class _Distance(torch.nn.Module):
    """Reads an absolute value that is known when the program is lowered."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (torch.arange(6.0) - 4).abs()


class _Decode(torch.nn.Module):
    """Takes codes of another program as its input."""

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        decode = torch.ops.quantized_decomposed.dequantize_per_tensor.default
        decoded: torch.Tensor = decode(codes, 0.5, 3, -128, 127, torch.int8)
        return decoded * 1.5


class _Counter(torch.nn.Module):
    """Has state that a delegate reads and a kernel writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x)
        return self.seen * 2


class _Block(torch.nn.Module):
    """Layers whose activations a quantizer takes, between float ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 48)
        self.norm = torch.nn.BatchNorm2d(8)
        self.conv = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.second = torch.nn.Linear(48, 8)

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> Any:
        hidden = self.second(F.gelu(self.first(x)))
        return hidden + torch.relu(self.norm(self.conv(image))).mean((2, 3)), hidden


def _select(targets: str, *cases: Case) -> list[Case]:
    return [
        replace(case, targets=targets, tags=case.tags | {"nightly", "openvino"}) for case in cases
    ]


def _draw_codes() -> torch.Tensor:
    return torch.randint(-128, 128, (4, 16), dtype=torch.int8)


def _make_network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 32))


CASES: list[Case] = [
    *_select(
        _FLOAT,
        # Layouts
        nn_case("openvino_layout/contiguous_image", lambda: torch.nn.Conv2d(8, 16, 3, padding=1),
                randn(2, 8, 8, 6)),
        nn_case("openvino_layout/channels_last_image",
                lambda: torch.nn.Conv2d(8, 16, 3, padding=1), randn(2, 8, 8, 6).channels_last()),
        op("openvino_layout/channels_last_elementwise", torch.add,
           randn(2, 8, 4, 6).channels_last(), randn(2, 8, 4, 6).channels_last()),
        op("openvino_layout/permuted_inside", lambda x: x.permute(0, 2, 3, 1) * 2,
           randn(2, 3, 4, 5)),
        Case("openvino_layout/returned_input", lambda: (_SumAndCopy(), (torch.randn(3, 5),))),
        Case("openvino_layout/state", lambda: (_Counter(), (torch.randn(3, 5),))),
        # Constants that lowering folds
        Case("openvino_fold/abs", lambda: (_Distance(), (torch.randn(6),))),
        op("openvino_fold/reflect", lambda x: F.pad(x, (2, 1), mode="reflect"), randn(2, 3, 6)),
        op("openvino_fold/replicate", lambda x: F.pad(x, (2, 1), mode="replicate"),
           randn(2, 3, 6)),
        # Integers that are negative
        *(
            op(f"openvino_integers/{name}", function, ints(-9, 10, 5, 8, dtype=dtype),
               ints(1, 5, 5, 8, dtype=dtype))
            for dtype, suffix in ((torch.int32, "int32"), (torch.int64, "int64"))
            for name, function in (
                (f"floor_divide_{suffix}", torch.floor_divide),
                (f"remainder_{suffix}", torch.remainder),
                (f"fmod_{suffix}", torch.fmod),
            )
        ),
        op("openvino_integers/floor_divide_large", torch.floor_divide,
           ints(2**24, 2**30, 5, 8), ints(1, 4, 5, 8)),
        # Codes from outside
        Case("openvino_codes/decoded_input", lambda: (_Decode(), (_draw_codes(),))),
        # Pools whose last window ends outside
        op("openvino_pool/ceil",
           lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), randn(1, 2, 8, 8)),
        op("openvino_pool/ceil_uncounted",
           lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
           randn(1, 2, 8, 8)),
    ),
    *_select(
        f"{_FLOAT}|openvino:default",
        nn_case("openvino_precision/linear", lambda: torch.nn.Linear(12, 64), randn(8, 12)),
        nn_case("openvino_precision/convolution",
                lambda: torch.nn.Conv2d(16, 32, 3, padding=1), randn(1, 16, 8, 8)),
        op("openvino_precision/matmul", torch.matmul, randn(3, 8, 64), randn(3, 64, 16)),
        nn_case("openvino_precision/network", _make_network, randn(16, 8)),
    ),
    *_select(
        _STATIC,
        nn_case("openvino_int8/linear", lambda: torch.nn.Linear(32, 48), randn(8, 32)),
        nn_case("openvino_int8/grouped", lambda: torch.nn.Conv2d(8, 16, 3, groups=2),
                randn(1, 8, 8, 8)),
        Case("openvino_int8/block",
             lambda: (_Block().eval(), (torch.randn(4, 32), torch.randn(4, 4, 8, 8)))),
    ),
]  # fmt: skip
