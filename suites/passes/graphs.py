"""Small graphs that passes tend to get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.export import Dim

from harness import Case, Inputs

ROWS = {0: Dim("rows", min=2, max=9)}

# A plain run has all passes in sequence, and each pass on the graphs that are made for it.
NIGHTLY = frozenset({"passes", "nightly"})


class Function(torch.nn.Module):
    """A function as a module, with a buffer to write to."""

    def __init__(self, function: Callable[..., object], *, buffer: bool = False) -> None:
        super().__init__()
        self.function = function
        if buffer:
            self.register_buffer("state", torch.zeros(4, 6))
        self.takes_state = buffer

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(self.state, *inputs) if self.takes_state else self.function(*inputs)


def graph(
    name: str,
    function: Callable[..., object],
    inputs: Callable[[], Inputs] = lambda: (torch.randn(4, 6),),
    *,
    buffer: bool = False,
    dynamic: bool = False,
    random_outputs: bool = False,
    vacuous: str = "",
    changed_ops: Mapping[str, tuple[int, int]] | None = None,
) -> Case:
    """Make a case of a function; ``changes`` are the pass changes of its targets."""
    return Case(
        name,
        lambda: (Function(function, buffer=buffer), inputs()),
        dynamic_shapes={"inputs": (ROWS,)} if dynamic else None,
        random_outputs=random_outputs,
        vacuous=vacuous,
        changed_ops=changed_ops or {},
    )


def pair() -> Inputs:
    return torch.randn(4, 6), torch.randn(4, 6)


def whole() -> Inputs:
    return (torch.randint(-4, 5, (4, 6)),)


def _written(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    before = state * 2
    state.add_(x)
    return before + state * 2


def _entangled(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """A function for which a reinplacing pass with incomplete records computes w + (t + y)."""
    t, w = torch.exp(x), torch.exp(z)
    a = t + y
    b = w + t
    return a * b


REPEATED = [
    graph("expression", lambda x: x.exp() + x.exp(), changed_ops={"aten.exp.default": (2, 1)}),
    graph("chain", lambda x: torch.sin(torch.exp(x)) * torch.sin(torch.exp(x)),
          changed_ops={"aten.exp.default": (2, 1), "aten.sin.default": (2, 1)}),
    graph("masks", lambda x: torch.where(x > 0, x, -x) + torch.where(x > 0, x * 2, x),
          changed_ops={"aten.gt.Scalar": (2, 1)}),
    graph("outputs", lambda x: (torch.exp(x), torch.exp(x)),
          changed_ops={"aten.exp.default": (2, 2)}),
    graph("sizes", lambda x: x.sum(0) / x.shape[0] + x.amax(0) * x.shape[0], dynamic=True),
    graph("length_and_number", lambda x: x + torch.ones(x.shape[0]).sum() - torch.ones(1).sum(),
          dynamic=True),
    graph("draws", lambda x: (torch.rand(4, 6) + 1) * (torch.rand(4, 6) + x), random_outputs=True,
          changed_ops={"aten.rand.default": (2, 2)}),
    graph("state", _written, buffer=True),
    graph("numbers", lambda x: (torch.ops.aten.mul.Scalar(x, 2) - 1) / 3
          + (torch.ops.aten.mul.Scalar(x, 2.0) - 1) / 3, whole),
    graph("zeros", lambda x: x * (torch.ops.aten.mul.Scalar(x, 0.0).reciprocal().sign()
          + torch.ops.aten.mul.Scalar(x, -0.0).reciprocal().sign() * 2),
          vacuous="either sign of a zero is within the bounds; the pass must keep it"),
    graph("truths", lambda x: torch.ops.aten.add.Scalar(x, True).exp()
          + torch.ops.aten.add.Scalar(x, 1).exp()),
]  # fmt: skip

WRITABLE = [
    graph("entangled", _entangled, lambda: (*pair(), torch.randn(4, 6))),
    graph("twice_the_same", lambda x: (lambda t: (t + t) * t)(torch.exp(x))),
    graph("grows", lambda x, y: torch.exp(x) + y, lambda: (torch.randn(6), torch.randn(4, 6))),
    graph("other_dtype", lambda x: torch.exp(x) > 1),
    graph("view_of_written", lambda x, y: (lambda t: (t + y).sum() + t[0].sum())(torch.exp(x)),
          pair),
    graph("input", lambda x, y: (x + y) * 2, pair),
    graph("state", _written, buffer=True),
    graph("dynamic_chain", lambda x: (torch.exp(x) + 1) * torch.sin(x), dynamic=True),
    graph("returned", lambda x: (lambda t: (t, t + 1))(torch.exp(x))),
]  # fmt: skip

MOVED = [
    graph("views", lambda x: x.reshape(2, 12).reshape(3, 8).reshape(24) + 1),
    graph("permutes", lambda x: x.T.T + x.T.reshape(4, 6)),
    graph("offset", lambda x: x[1:].reshape(-1) + x[:3].reshape(-1)),
    graph("clones", lambda x: x.clone().exp().clone()),
    graph("clone_of_input", lambda x: x.clone()),
    graph("clone_before_write", lambda b, x: (b.clone() + 1, b.add_(x))[0], buffer=True),
    graph("nothing_added", lambda x: (x + 0) * 1),
    graph("full_slice", lambda x: x[0:4].exp()),
    graph("dynamic", lambda x: x.reshape(-1, 3).reshape(-1) + 1, dynamic=True),
]  # fmt: skip

CAST = [
    graph("to_int_and_back", lambda x: (x * 3).long().float() + 1),
    graph("to_bfloat16_and_back", lambda x: x.bfloat16().float() + 1),
    graph("to_float64_and_back", lambda x: x.double().float() + 1),
    graph("to_bool_and_back", lambda x: (x > 0).float().bool().float() + x),
    graph("int_to_bfloat16", lambda x: x.float().bfloat16().float() * 2, whole),
]  # fmt: skip
