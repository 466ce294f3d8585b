"""Recurrent layers.

Definitions: docstrings in coremltools ``mil/ops/defs/iOS15/recurrent.py`` and
``iOS18/recurrent.py``. What they leave open is in NeuralNetwork.proto (``GRULayerParams``,
``LSTMParams``): a GRU applies the reset gate before the matrix product unless ``reset_after``,
peepholes of the input and forget gates see the previous cell state and that of the output gate
the new one, and ``clip`` limits the cell state. Values: torch's kernels in the dtype of ``x``, a
step at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from backends.coreml.kernels.base import Scalar, register_kernel, to_number, to_tensor
from harness import ProgramError, UnsupportedProgram

_Activation = Callable[[torch.Tensor], torch.Tensor]

_ACTIVATIONS: dict[str, _Activation] = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def _get_activation(name: str) -> _Activation:
    if name.lower() in ("hard_sigmoid", "sigmoid_hard", "scaled_tanh"):
        raise UnsupportedProgram(f"activation {name} has no documented parameters in this layer")
    if name.lower() not in _ACTIVATIONS:
        raise ProgramError(f"unknown activation {name!r}")
    return _ACTIVATIONS[name.lower()]


def _check_layer(
    x: torch.Tensor, initial: torch.Tensor, weight_ih: torch.Tensor, weight_hh: torch.Tensor,
    gates: int,
) -> None:  # fmt: skip
    """Require matching shapes, and a sequence that is not empty."""
    hidden = initial.shape[-1]
    expected = ((gates * hidden, x.shape[-1]), (gates * hidden, hidden))
    if x.dim() != 3 or not x.numel() or initial.shape != (x.shape[1], hidden):
        raise ProgramError(f"x {list(x.shape)} with a state {list(initial.shape)}")
    if (tuple(weight_ih.shape), tuple(weight_hh.shape)) != expected:
        raise ProgramError(
            f"weights {list(weight_ih.shape)} and {list(weight_hh.shape)}, expected {expected}"
        )


def _order(length: int, direction: str) -> range:
    if direction not in ("forward", "reverse"):
        raise ProgramError(f"unknown direction {direction!r}")
    return range(length) if direction == "forward" else range(length - 1, -1, -1)


def _collect(states: list[torch.Tensor], whole: bool) -> list[torch.Tensor]:
    """Return the states of all steps or the last one, as a sequence, and the last state."""
    return [torch.stack(states if whole else states[-1:]), states[-1]]


@register_kernel("rnn")
def rnn(
    x: torch.Tensor,
    initial_h: torch.Tensor,
    weight_ih: torch.Tensor,
    weight_hh: torch.Tensor,
    bias: torch.Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    activation: str = "tanh",
) -> list[torch.Tensor]:
    """Compute a simple recurrent layer.

    Args:
        x: [s, b, I].
        initial_h: [b, H].
        weight_ih: [H, I].
        weight_hh: [H, H].
        bias: [H].
        direction: ``forward`` or ``reverse``; reversed states are in the order of computation.
        output_sequence: whether the first result has all states instead of the last.
        activation: name of the activation.

    Returns:
        States [s or 1, b, H] and the last state [b, H].
    """
    _check_layer(x, initial_h, weight_ih, weight_hh, 1)
    act, h = _get_activation(activation), initial_h
    states = []
    for step in _order(x.shape[0], direction):
        h = act(functional.linear(x[step], weight_ih, bias) + functional.linear(h, weight_hh))
        states.append(h)
    return _collect(states, output_sequence)


@register_kernel("gru")
def gru(  # noqa: PLR0913 - inputs of the operation
    x: torch.Tensor,
    initial_h: torch.Tensor,
    weight_ih: torch.Tensor,
    weight_hh: torch.Tensor,
    bias: torch.Tensor | None = None,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    activation: str = "tanh",
    reset_after: bool = False,
    input_bias: torch.Tensor | None = None,
) -> list[torch.Tensor]:
    """Compute a gated recurrent layer; weights and biases are ordered reset, output, update.

    With ``reset_after`` the reset gate multiplies the recurrent product and ``bias``, as in torch.

    Returns:
        States [s or 1, b, H] and the last state [b, H].
    """
    _check_layer(x, initial_h, weight_ih, weight_hh, 3)
    gate, act = _get_activation(recurrent_activation), _get_activation(activation)
    h, states = initial_h, []
    reset_weight, output_weight, update_weight = weight_hh.chunk(3)
    hidden = h.shape[-1]
    zeros = torch.zeros(3 * hidden, dtype=x.dtype)
    reset_bias, output_bias, update_bias = (zeros if bias is None else bias).chunk(3)
    for step in _order(x.shape[0], direction):
        reset, output, update = functional.linear(x[step], weight_ih, input_bias).chunk(3, -1)
        r = gate(reset + functional.linear(h, reset_weight, reset_bias))
        z = gate(update + functional.linear(h, update_weight, update_bias))
        if reset_after:
            recurrent = r * functional.linear(h, output_weight, output_bias)
        else:
            recurrent = functional.linear(r * h, output_weight, output_bias)
        h = (1 - z) * act(output + recurrent) + z * h
        states.append(h)
    return _collect(states, output_sequence)


def _run_lstm(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None],
    direction: str,
    activations: tuple[_Activation, _Activation, _Activation],
    limit: float | None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Compute one direction of an LSTM.

    Returns:
        The hidden states in the order of computation, and the last cell state.
    """
    weight_ih, weight_hh, bias, peephole = weights
    gate, cell, act = activations
    _check_layer(x, h, weight_ih, weight_hh, 4)
    zeros = torch.zeros(3 * h.shape[-1], dtype=x.dtype)
    peep_i, peep_f, peep_o = (zeros if peephole is None else peephole).chunk(3)
    states = []
    for step in _order(x.shape[0], direction):
        sums = functional.linear(x[step], weight_ih, bias) + functional.linear(h, weight_hh)
        i, f, o, z = sums.chunk(4, -1)
        if peephole is not None:
            i, f = i + peep_i * c, f + peep_f * c
        c = gate(f) * c + gate(i) * cell(z)
        if limit is not None:
            c = c.clamp(-limit, limit)
        h = gate(o if peephole is None else o + peep_o * c) * act(c)
        states.append(h)
    return states, c


@register_kernel("lstm")
def lstm(
    x: torch.Tensor,
    initial_h: torch.Tensor,
    initial_c: torch.Tensor,
    direction: str = "forward",
    output_sequence: bool = False,
    recurrent_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    activation: str = "tanh",
    **options: Any,
) -> list[torch.Tensor]:
    """Compute an LSTM; weights and biases are ordered input, forget, output, cell.

    Args:
        x: [s, b, I].
        initial_h: [b, H], or [b, 2 H] for both directions, forward first.
        initial_c: in the shape of ``initial_h``.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        output_sequence: whether the first result has all states instead of the last.
        recurrent_activation: activation of the input, forget and output gates.
        cell_activation: activation of the cell gate.
        activation: activation of the cell state.
        **options: ``weight_ih`` [4 H, I] and ``weight_hh`` [4 H, H]; ``bias`` [4 H], ``peephole``
            [3 H] (input, forget, output); the four with ``_back`` for the second direction; and
            ``clip``, the limit of the cell state.

    Returns:
        States [s or 1, b, H or 2 H], the last state and the last cell state.
    """
    names = ("weight_ih", "weight_hh", "bias", "peephole")
    directions = [(direction, "")]
    if direction == "bidirectional":
        directions = [("forward", ""), ("reverse", "_back")]
    known = {name + end for name in names for end in ("", "_back")} | {"clip"}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise ProgramError(f"unknown inputs {', '.join(unknown)}")
    acts = tuple(map(_get_activation, (recurrent_activation, cell_activation, activation)))
    clip: torch.Tensor | Scalar | None = options.get("clip")
    limit = None if clip is None else float(to_number(clip))
    parts = []
    hidden = initial_h.chunk(len(directions), -1)
    cells = initial_c.chunk(len(directions), -1)
    for (way, end), h, c in zip(directions, hidden, cells, strict=True):
        values = [options.get(name + end) for name in names]
        if values[0] is None or values[1] is None:
            raise ProgramError(f"an LSTM without weight_ih{end} and weight_hh{end}")
        weights = tuple(None if v is None else to_tensor(v, x.dtype) for v in values)
        states, cell = _run_lstm(x, h, c, weights, way, acts, limit)  # type: ignore[arg-type]
        parts.append((states, cell))
    if len(parts) == 1:
        states, cell = parts[0]
        return [*_collect(states, output_sequence), cell]
    (ahead, cell_ahead), (back, cell_back) = parts
    last = torch.cat([ahead[-1], back[-1]], -1)
    # Each step of the sequence has the state of both directions at this step of x.
    steps = [torch.cat(pair, -1) for pair in zip(ahead, back[::-1], strict=True)]
    whole = torch.stack(steps) if output_sequence else last.unsqueeze(0)
    return [whole, last, torch.cat([cell_ahead, cell_back], -1)]
