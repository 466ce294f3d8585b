"""Matrix products, linear layers, and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

from harness import Case
from suites.build import Input, add_vacuous_reasons, bools, ints, nn_case, op, randn, values, zeros
from suites.selection import take_turns

_I32 = torch.int32
# Core ML refuses a beta of 0, and the emulated Metal kernel multiplies by it.
_READS_BETA = "portable:fp32|xnnpack:fp32|tosa:fp|mlx:fp32|mlx:bf16"
_ANY_BIAS = "xnnpack:fp*|xnnpack:int8_dynamic|tosa:fp|mlx:*|metal:fp32|portable:fp32"


def _with_bias(name: str, x: Input, *shape: int) -> Case:
    """A layer from 8 to 5 features whose bias has another shape than (5,)."""

    def layer() -> torch.nn.Linear:
        made = torch.nn.Linear(8, 5)
        made.bias = torch.nn.Parameter(torch.randn(shape))
        return made

    # Quantizers, Core ML and OpenVINO refuse such a bias with an error.
    return replace(nn_case(f"linear/bias_{name}", layer, x), targets=_ANY_BIAS)


class _Layer(torch.nn.Module):
    """A weight of (in, out), as GPT-2 stores it, and a bias."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.bias = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight, self.bias)


class _Weighted(torch.nn.Module):
    """A softmax, multiplied by a stored weight of (out, in)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product.

        Args:
            x: (2, 4, 3).
        """
        return torch.softmax(x, -1) @ self.weight.t()


class _Projected(torch.nn.LSTM):
    """An LSTM with a projection, which returns its outputs without its states."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """The outputs.

        Args:
            x: (positions, batches, features).
        """
        outputs: torch.Tensor = super().forward(x)[0]
        return outputs


CASES: list[Case] = [
    op("mm/2d", torch.mm, randn(3, 7), randn(7, 5)),
    op("mm/row_times_column", torch.mm, randn(1, 9), randn(9, 1)),
    op("mm/right_transposed", lambda a, b: torch.mm(a, b.t()), randn(3, 7), randn(5, 7)),
    op("mm/transposed_inputs", torch.mm, randn(3, 7).transposed(), randn(7, 5).transposed()),
    op("mm/sliced_input", torch.mm, randn(3, 7).sliced(), randn(7, 5)),
    op("mm/int32", torch.mm, ints(-9, 9, 3, 7, dtype=_I32), ints(-9, 9, 7, 5, dtype=_I32)),
    # On tosa:int it ends the process, as add/bf16 does.
    replace(op("mm/bf16", torch.mm, randn(3, 7, dtype=torch.bfloat16),
               randn(7, 5, dtype=torch.bfloat16)), plain_targets="[!t]*|tosa:fp"),
    op("mm/fp16", torch.mm, randn(3, 7, dtype=torch.float16), randn(7, 5, dtype=torch.float16)),
    op("mm/empty_inner_dim", torch.mm, randn(3, 0), randn(0, 5)),
    op("bmm/3d", torch.bmm, randn(2, 3, 7), randn(2, 7, 5)),
    op("bmm/transposed_input", torch.bmm, randn(2, 3, 7), randn(2, 7, 5).transposed()),
    op("bmm/long_inner_dim", torch.bmm, randn(2, 2, 1024), randn(2, 1024, 3)),
    op("addmm/plain", torch.addmm, randn(3, 5), randn(3, 7), randn(7, 5)),
    op("addmm/broadcast_bias", torch.addmm, randn(5), randn(3, 7), randn(7, 5)),
    op("addmm/beta_alpha", torch.addmm, randn(3, 5), randn(3, 7), randn(7, 5), beta=0.5,
       alpha=-2.0),
    op("addmm/beta_zero_ignores_bias", torch.addmm, zeros(3, 5), randn(3, 7), randn(7, 5), beta=0),
    replace(op("addmm/beta_zero_ignores_nan", torch.addmm, values((math.nan,), 3, 5), randn(3, 7),
               randn(7, 5), beta=0), targets=_READS_BETA),
    op("baddbmm/beta_alpha", torch.baddbmm, randn(1, 3, 5), randn(2, 3, 7), randn(2, 7, 5),
       beta=0.5, alpha=-2.0),
    op("matmul/2d_3d", torch.matmul, randn(4, 6), randn(3, 6, 5)),
    op("matmul/broadcast_batch", torch.matmul, randn(2, 1, 4, 6), randn(3, 6, 5)),
    op("matmul/vector_matrix", torch.matmul, randn(6), randn(6, 5)),
    op("matmul/dot", torch.matmul, randn(9), randn(9)),
    op("matmul/attention_scores", lambda q, k: q @ k.transpose(-1, -2), randn(2, 3, 5, 8),
       randn(2, 3, 7, 8)),
    nn_case("addmm/parameters", lambda: _Layer(lambda x, w, b: torch.addmm(b, x, w)), randn(3, 6)),
    nn_case("matmul/parameter", lambda: _Layer(lambda x, w, _: x @ w), randn(2, 3, 6)),
    nn_case("matmul/softmax_by_weight", _Weighted, randn(2, 4, 3)),
    op("einsum/contract", lambda a, b: torch.einsum("bij,bjk->bki", a, b), randn(2, 3, 4),
       randn(2, 4, 5)),
    nn_case("linear/bias", lambda: torch.nn.Linear(32, 64), randn(4, 32)),
    nn_case("linear/no_bias", lambda: torch.nn.Linear(32, 17, bias=False), randn(4, 32)),
    nn_case("linear/1d", lambda: torch.nn.Linear(16, 5), randn(16)),
    nn_case("linear/3d", lambda: torch.nn.Linear(16, 24), randn(2, 5, 16)),
    nn_case("linear/4d_no_bias", lambda: torch.nn.Linear(8, 6, bias=False), randn(2, 3, 4, 8)),
    nn_case("linear/one_feature", lambda: torch.nn.Linear(1, 3), randn(4, 1)),
    nn_case("linear/transposed_input", lambda: torch.nn.Linear(16, 8), randn(6, 16).transposed()),
    nn_case("linear/then_relu",
            lambda: torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU()), randn(3, 16)),
    nn_case("linear/shared_twice", lambda: torch.nn.Sequential(*[torch.nn.Linear(12, 12)] * 2),
            randn(3, 12)),
    _with_bias("matrix", randn(4, 8), 4, 5),
    _with_bias("of_one", randn(2, 4, 8), 1),
    nn_case("linear/fp16", lambda: torch.nn.Linear(16, 8).half(),
            randn(3, 16, dtype=torch.float16)),
    nn_case("lstm/projection", lambda: _Projected(4, 6, proj_size=3), randn(3, 2, 4)),
    nn_case("bilinear/bias", lambda: torch.nn.Bilinear(4, 5, 3), randn(6, 4), randn(6, 5)),
    op("scaled_dot_product_attention/plain", F.scaled_dot_product_attention,
       randn(2, 3, 5, 8), randn(2, 3, 7, 8), randn(2, 3, 7, 8)),
    op("scaled_dot_product_attention/causal", F.scaled_dot_product_attention,
       randn(1, 2, 6, 8), randn(1, 2, 6, 8), randn(1, 2, 6, 8), is_causal=True),
    op("scaled_dot_product_attention/additive_mask", F.scaled_dot_product_attention,
       randn(1, 2, 5, 8), randn(1, 2, 7, 8), randn(1, 2, 7, 8), randn(5, 7)),
    # The second half of the keys is always visible: a row without any key is NaN by definition.
    op("scaled_dot_product_attention/bool_mask",
       lambda q, k, v, m: F.scaled_dot_product_attention(
           q, k, v, torch.cat([m, torch.ones_like(m)], -1)),
       randn(1, 2, 5, 8), randn(1, 2, 6, 8), randn(1, 2, 6, 8), bools(5, 3)),
    op("scaled_dot_product_attention/scale", F.scaled_dot_product_attention,
       randn(1, 2, 5, 8), randn(1, 2, 7, 8), randn(1, 2, 7, 8), scale=0.5),
    op("scaled_dot_product_attention/grouped_queries", F.scaled_dot_product_attention,
       randn(1, 4, 5, 8), randn(1, 2, 7, 8), randn(1, 2, 7, 8), enable_gqa=True),
    op("scaled_dot_product_attention/flattened",
       lambda q, k, v: F.scaled_dot_product_attention(q, k, v).flatten(2),
       randn(1, 2, 5, 8), randn(1, 2, 7, 8), randn(1, 2, 7, 8)),
]

CASES = add_vacuous_reasons(
    CASES,
    {
        "mm/empty_inner_dim": "a sum over nothing is 0",
    },
)

CASES = take_turns(CASES)
