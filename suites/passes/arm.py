"""The passes of the Arm pipeline that rewrite arithmetic, one by one."""

from __future__ import annotations

from collections.abc import Callable

import torch

from harness import Case, Inputs, PassCase
from suites.passes.graphs import NIGHTLY, graph
from suites.selection import take_one_of

F = torch.nn.functional


def between(low: float, high: float) -> Callable[[], Inputs]:
    return lambda: (torch.rand(4, 6) * (high - low) + low,)


def with_weights() -> Inputs:
    return torch.randn(4, 6), torch.rand(6) + 0.5, torch.randn(6)


def divided() -> Inputs:
    return torch.randn(4, 6), torch.rand(4, 6) + 0.5


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


NORMS = [
    graph("last", lambda x, w, b: F.layer_norm(x, (6,), w, b), with_weights),
    graph("no_weights", lambda x: F.layer_norm(x, (6,))),
    graph("no_bias", lambda x, w, b: F.layer_norm(x, (6,), w) + b, with_weights),
    graph("all", lambda x: F.layer_norm(x, (4, 6), eps=0.1)),
    graph("large_mean", lambda x: F.layer_norm(x + 300, (6,))),
    graph("twice", lambda x: F.layer_norm(F.layer_norm(x, (6,)).exp(), (6,))),
]

SOFTMAXES = [
    graph("last", lambda x: x.softmax(-1)),
    graph("first", lambda x: x.softmax(0)),
    graph("logarithm", lambda x: x.log_softmax(1)),
    graph("large", lambda x: (x * 100).softmax(-1)),
    graph("far_from_zero", lambda x: (x - 3000).softmax(-1)),
    graph("masked", lambda x: x.masked_fill(x > 0.5, -torch.inf).softmax(-1),
          lambda: (torch.linspace(-2, 2, 24).reshape(6, 4).T.contiguous(),)),
    graph("one", lambda x: x[:, :1].softmax(-1), vacuous="of one element it is 1"),
    Case("attention", lambda: (
        Attention(),
        (torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(5, 5)),
    )),
]  # fmt: skip

GELUS = [
    graph("exact", F.gelu),
    graph("tanh", lambda x: F.gelu(x, approximate="tanh")),
    graph("tails", F.gelu, between(-6, 6)),
    graph("tanh_tails", lambda x: F.gelu(x, approximate="tanh"), between(-6, 6)),
]

VARIANCES = [
    graph("rows", lambda x: x.var(1)),
    graph("columns", lambda x: x.var(0, correction=0, keepdim=True)),
    graph("all", lambda x: x.var()),
    graph("both", lambda x: x.var((0, 1), correction=2)),
    graph("large_mean", lambda x: (x + 300).var(-1)),
    graph("deviation", lambda x: x.std(1)),
]

MEANS = [
    graph("rows", lambda x: x.mean(1)),
    graph("all", lambda x: x.mean((0, 1), keepdim=True)),
    graph("leading", lambda x: x.reshape(2, 2, 6).mean(0)),
]

FUNCTIONS = {
    "decompose_acosh": graph("acosh", torch.acosh, between(1.1, 9)),
    "decompose_add_sub_alpha": graph(
        "alpha", lambda x, y: torch.add(x, y, alpha=1.5) - torch.sub(y, x, alpha=3), divided
    ),
    "decompose_addmm": graph(
        "factors", lambda x, y: torch.addmm(x[0, :4], x, y.T, beta=0.5, alpha=2.0), divided
    ),
    "decompose_asin_and_acos": graph("both", lambda x: x.asin() + x.acos() * 2, between(-1, 1)),
    "decompose_asinh": graph("asinh", torch.asinh, between(0.1, 9)),
    "decompose_atan": graph("atan", torch.atan),
    "decompose_atanh": graph("atanh", torch.atanh, between(0.2, 0.9)),
    "decompose_cosh": graph("cosh", torch.cosh),
    "decompose_div": graph("quotient", lambda x, y: x / y, divided),
    "decompose_elu": graph("elu", lambda x: F.elu(x, 0.7) + F.selu(x)),
    "decompose_expm1": graph("expm1", torch.expm1),
    "decompose_group_norm": graph(
        "groups", lambda x, w, b: F.group_norm(x.T.reshape(2, 6, 2), 3, w, b), with_weights
    ),
    "decompose_int_pow": graph("cube", lambda x: x**3 + x**2),
    "decompose_leaky_relu": graph("leaky", lambda x: F.leaky_relu(x, 0.2)),
    "decompose_log1p": graph("log1p", torch.log1p, between(0.01, 9)),
    "decompose_logit": graph(
        "logit", lambda x: torch.logit(x) + torch.logit(x, eps=0.1), between(0.05, 0.95)
    ),
    "decompose_round": graph("round", lambda x: torch.round(x * 3) + x),
    "decompose_sign": graph("sign", lambda x: torch.sign(x.relu()) + torch.sign(x)),
    "decompose_sinh": graph("sinh", torch.sinh, between(0.5, 3)),
    "decompose_sqrt": graph("root", lambda x: x.sqrt() + x.pow(0.5), between(0.1, 9)),
    "decompose_sum": graph("sums", lambda x: x.sum((0, 1)) + x.sum(0)),
    "decompose_tan": graph("tan", torch.tan, between(-1.4, 1.4)),
}

CASES = [
    *PassCase("arm_layer_norm", "+decompose_layer_norm", NORMS, "tosa:fp").cases,
    *PassCase("arm_softmax", "+decompose_softmax", SOFTMAXES, "tosa:fp").cases,
    *PassCase("arm_gelu", "+decompose_gelu", GELUS, "tosa:fp").cases,
    *PassCase("arm_var", "+decompose_var", VARIANCES, "tosa:fp").cases,
    *PassCase("arm_mean", "+decompose_mean", MEANS, "tosa:fp").cases,
    *PassCase("arm_norm_apart", "+decompose_layer_norm+decompose_var+decompose_mean", NORMS,
              "tosa:fp", NIGHTLY).cases,
    *(
        case
        for name, one in FUNCTIONS.items()
        for case in PassCase(f"arm_{name.removeprefix('decompose_')}", f"+{name}", [one],
                             "tosa:fp").cases
    ),
]  # fmt: skip
CASES = take_one_of(2, CASES)
