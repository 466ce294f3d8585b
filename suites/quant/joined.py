"""Combinations of quantized operators: shared scales, float islands, and small models.

An island is an operator that a quantizer leaves in float between quantized ones: there the graph
decodes, computes, and encodes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn import (
    GELU,
    GRU,
    LSTM,
    RNN,
    BatchNorm2d,
    Conv2d,
    Embedding,
    Flatten,
    LayerNorm,
    LeakyReLU,
    Linear,
    LSTMCell,
    MaxPool2d,
    Module,
    ReLU,
    ReLU6,
    RNNBase,
    Sequential,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)

from harness import Case
from suites.build import ints, nn_case, op, randn, uniform
from suites.ops.norm import NormBesideReader
from suites.quant.only import ALL, TOSA, WEIGHTLESS, WEIGHTS_ASIDE, WITHOUT_PER_TENSOR, in_turns, on


def _island(name: str, between: Callable[[], Module]) -> Case:
    return nn_case(
        f"int_island/{name}",
        lambda: Sequential(Linear(12, 8), between(), Linear(8, 6)),
        randn(3, 12),
    )


class _Cat(Module):
    """Two layers of different range side by side; their results share one scale."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Linear(12, 8), Linear(12, 8)
        with torch.no_grad():
            self.right.weight *= 8

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.left(x), self.right(x)], -1)


class _ReluThenCat(Module):
    """The result of a relu beside negative values; both share one scale and zero point."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Linear(12, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.relu(self.layer(x)), x], -1)


class _Halves(Module):
    """The channels of a convolution in two halves, added."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.conv(x)
        return hidden[:, :4] + hidden[:, 4:]


class _FirstToken(Module):
    """A stored token before all others, and a layer of their embeddings."""

    first: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = torch.nn.Embedding(10, 4), Linear(4, 4)
        self.register_buffer("first", torch.tensor([[1]]))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(self.embedding(torch.cat([self.first, tokens], 1)))
        return result


class _Two(Module):
    """Two layers of one input; the result of one is also an output."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Linear(12, 12), Linear(12, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.left(x) + x, self.right(x)


class _Residual(Module):
    """A residual block of convolutions with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Conv2d(4, 4, 3, padding=1), Conv2d(4, 4, 3, padding=1)
        self.norms = torch.nn.ModuleList([BatchNorm2d(4), BatchNorm2d(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(hidden)))


class _ResidualLinear(Module):
    """A residual around a layer; the added value has the range of the layer's input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = Linear(12, 12), Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.outer(x + self.inner(x))
        return result


class _Difference(Module):
    """A difference from a value and what a layer makes of it behind a float operator."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = Linear(12, 12), Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + x
        result: torch.Tensor = self.outer(y - self.inner(F.silu(y)))
        return result


class _Logits(Module):
    """A convolution whose result is returned, and its sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.conv(x)
        return logits, torch.sigmoid(logits)


class _Gated(Module):
    """A gated MLP: two layers multiplied, then a third."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = Linear(12, 16), Linear(12, 16), Linear(16, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return result


class _DecoderLayer(Module):
    """Attention of (N, L, 16) to a memory (N, M, 16), and two layers, each behind a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(16, 16, bias=False) for _ in range(4))
        self.wide, self.narrow = Linear(16, 32, bias=False), Linear(32, 16, bias=False)
        self.norm, self.last = LayerNorm(16), LayerNorm(16)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        scores = torch.bmm(self.q(x), self.k(memory).mT) / 4.0
        x = self.norm(x + self.out(torch.bmm(scores.softmax(-1), self.v(memory))))
        result: torch.Tensor = self.last(x + self.narrow(torch.relu(self.wide(x))))
        return result


class _Decoder(Module):
    """Two layers that attend to one memory: four layers quantize it, with the same scale."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _DecoderLayer(), _DecoderLayer()

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(x, memory), memory)
        return result


class _Attention(Module):
    """Attention with two heads; products and softmax are written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = Linear(12, 36), Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, 2, width // 2).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / 6**0.5, -1)
        result: torch.Tensor = self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return result


class _Recurrent(Module):
    """A recurrent network, its last hidden state projected."""

    def __init__(
        self, layers: int = 1, both: bool = False, kind: type[RNNBase] = LSTM, **options: Any
    ) -> None:
        super().__init__()
        self.network = kind(6, 8, layers, batch_first=True, bidirectional=both, **options)
        self.out = Linear(16 if both else 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.network(x)[0][:, -1])
        return result


class _TwoSteps(Module):
    """A cell of an LSTM that is called for one step after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = LSTMCell(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = self.cell(x[:, 0])
        result: torch.Tensor = self.cell(x[:, 1], state)[0]
        return result


def _relu6_beside_output(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = a + a
    return hidden, torch.nn.functional.relu6(hidden) * 2


def _classifier() -> Sequential:
    return Sequential(Conv2d(2, 4, 3), ReLU(), MaxPool2d(2), Flatten(), Linear(16, 5))


_CASES: list[Case] = [
    # Shared scales.
    *on(
        WEIGHTLESS,
        op("int_cat/two", lambda a, b: torch.cat([a, b], 1), randn(2, 3), uniform(-9, 9, 2, 4)),
        op("int_cat/first_dim", lambda a, b, c: torch.cat([a, b, c]), randn(2, 5), randn(1, 5),
           uniform(4, 5, 3, 5)),
        op("int_cat/itself", lambda a: torch.cat([a, a], 1), randn(2, 3)),
        op("int_shared/add_to_itself_then_cat", lambda a: torch.cat([a + a, a], -1), randn(2, 6)),
        op("int_shared/one_input_of_two_sums", lambda a, b: (a + b) + a, randn(2, 6), randn(6)),
        op("int_shared/reshape_and_permute",
           lambda a, b: (a + b).reshape(2, 3, 4).permute(0, 2, 1), randn(6, 4), randn(6, 4)),
        op("int_island/difference_of_sums", lambda a, b: (a + b) - (a * b), randn(3, 6), randn(6)),
        op("int_island/maximum_between_sums", lambda a, b: torch.maximum(a + b, b + b) + a,
           randn(3, 6), randn(3, 6)),
        op("int_shared/slice_of_a_sum", lambda a, b: (a + b)[:, 1:4], randn(3, 6), randn(3, 6)),
        op("int_shared/relu_of_two_users", lambda a, b: torch.relu(a + b) * (a + b), randn(3, 6),
           randn(3, 6)),
        # The results of the two tanh have different scales.
        op("int_shared/equal_operators", lambda a, b: (torch.cat([torch.tanh(a), b], -1),
                                                       torch.tanh(a) * a),
           randn(2, 6), uniform(-50, 50, 2, 6)),
        op("int_shared/cat_and_product", lambda a, b: (torch.cat([a, b], -1), a * b), randn(2, 6),
           uniform(-50, 50, 2, 6)),
        op("int_shared/sums_of_floats_and_integers", lambda a, i: (a + a, (i + 3) * i), randn(3, 6),
           ints(0, 9, 3, 6)),
        nn_case("int_shared/first_token", _FirstToken, ints(0, 9, 1, 5)),
        op("int_shared/two_outputs", lambda a, b: (a + b, a * b), randn(3, 6), randn(3, 6)),
        op("int_shared/relu6_beside_output", _relu6_beside_output, randn(3, 6)),
    ),
    *on(
        ALL,
        nn_case("int_shared/cat_of_layers", _Cat, randn(3, 12)),
        nn_case("int_shared/relu_then_cat", _ReluThenCat, randn(3, 12)),
        nn_case("int_shared/halves_of_a_conv", _Halves, randn(1, 3, 4, 4)),
        nn_case("int_shared/residual_linear", _ResidualLinear, randn(3, 12)),
        nn_case("int_shared/residual_conv", _Residual, randn(1, 4, 5, 5)),
        nn_case("int_shared/one_input_of_two_layers", _Two, randn(3, 12)),
        nn_case("int_shared/difference_around_layer", _Difference, randn(3, 12)),
        nn_case("int_shared/logits_and_sigmoid", _Logits, randn(1, 4, 5, 5)),
        nn_case("int_shared/norm_beside_reader",
                lambda: NormBesideReader(Conv2d(3, 4, 3), BatchNorm2d(4)), randn(1, 3, 6, 7)),
    ),
    *on(
        WEIGHTS_ASIDE,
        _island("sigmoid", Sigmoid),
        _island("tanh", Tanh),
        _island("gelu", GELU),
        _island("silu", SiLU),
        _island("leaky_relu", LeakyReLU),
        _island("relu6", ReLU6),
        _island("softmax", lambda: Softmax(-1)),
        _island("layer_norm", lambda: LayerNorm(8)),
        nn_case("int_island/embedding", lambda: Sequential(Embedding(9, 12), Linear(12, 6)),
                ints(0, 9, 2, 5)),
    ),
    # Small models.
    *on(
        ALL,
        nn_case("int_model/mlp", lambda: Sequential(Linear(12, 16), ReLU(), Linear(16, 16), ReLU(),
                                                    Linear(16, 4)), randn(4, 12)),
        nn_case("int_model/gated_mlp", _Gated, randn(3, 12)),
        nn_case("int_model/classifier", _classifier, randn(1, 2, 6, 6)),
        nn_case("int_model/attention", _Attention, randn(1, 4, 12)),
        nn_case("int_model/lstm", _Recurrent, randn(1, 2, 6)),
    ),
    *on(
        "xnnpack:int8_dynamic+merged_dynamic|xnnpack:int8_dynamic+dynamic_partitioner",
        nn_case("int_model/decoder", _Decoder, randn(1, 3, 16), randn(1, 5, 16)),
    ),
    # Lowering unrolled loops takes seconds, so each case has two targets.
    *on(TOSA, nn_case("int_model/lstm_cells", _TwoSteps, randn(2, 2, 6))),
    *on(
        "xnnpack:int8|xnnpack:int8_dynamic",
        nn_case("int_model/lstm_two_layers", lambda: _Recurrent(2), randn(2, 2, 6)),
    ),
    *on(
        f"xnnpack:int8_dynamic|{TOSA}",
        nn_case("int_model/lstm_both_ways", lambda: _Recurrent(both=True), randn(1, 2, 6)),
    ),
    *on(
        WEIGHTLESS,
        nn_case("int_model/gru", lambda: _Recurrent(kind=GRU), randn(1, 2, 6)),
        nn_case("int_model/rnn", lambda: _Recurrent(kind=RNN), randn(1, 2, 6)),
    ),
    *on(
        TOSA,
        nn_case("int_model/rnn_both_ways",
                lambda: _Recurrent(both=True, kind=RNN, nonlinearity="relu"), randn(1, 2, 6)),
    ),
    *on(
        TOSA,
        nn_case("int_model/gru_both_ways", lambda: _Recurrent(both=True, kind=GRU), randn(1, 2, 6)),
        nn_case("int_model/gru_no_bias", lambda: _Recurrent(kind=GRU, bias=False),
                randn(1, 2, 6)),
        tags={"nightly"},
    ),
]  # fmt: skip

# Both directions take three seconds on Arm's quantizer.
_PLAIN = {
    "int_model/lstm_both_ways": "xnnpack:*",
    "int_model/lstm_two_layers": "",
    "int_model/rnn_both_ways": "",
}
CASES: list[Case] = in_turns(
    (replace(case, plain_targets=_PLAIN.get(case.name, "*")) for case in _CASES),
    WITHOUT_PER_TENSOR,
)
