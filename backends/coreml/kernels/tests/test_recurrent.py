"""Recurrent layers, against torch's layers and declared shapes."""

import numpy
import pytest
import torch

from backends.coreml.kernels.tests.folding import assert_close, compare, compute, draw
from harness import ProgramError, UnsupportedProgram

pytestmark = pytest.mark.nightly

FLOATS = [numpy.float32, numpy.float16]
S, B, I, H = 4, 2, 3, 5  # noqa: E741 - sizes as the docstrings name them


def make_layer(kind, gates, dtype=numpy.float32, states=1, seed=0):
    """Return inputs of a layer in torch's order of gates."""
    names = {"weight_ih": (gates * H, I), "weight_hh": (gates * H, H), "bias_ih": (gates * H,),
             "bias_hh": (gates * H,)}  # fmt: skip
    tensors = {k: draw(seed + i, v, dtype, -1, 1) for i, (k, v) in enumerate(names.items())}
    x = draw(seed + 10, (S, B, I), dtype, -1, 1)
    initial = [draw(seed + 11 + i, (B, H), dtype, -1, 1) for i in range(states)]
    return tensors, x, initial


def run_torch(kind, tensors, x, initial, reverse=False, **options):
    layer = kind(I, H, **options)
    for key, value in tensors.items():
        getattr(layer, f"{key}_l0").data = torch.from_numpy(value).float()
    inputs = torch.from_numpy(x).float()
    states = tuple(torch.from_numpy(v).float().unsqueeze(0) for v in initial)
    with torch.no_grad():
        outputs, last = layer(
            inputs.flip(0) if reverse else inputs, states if len(states) > 1 else states[0]
        )
    return outputs, [v[0] for v in (last if isinstance(last, tuple) else (last,))]


def reorder(value, order):
    """Change the order of gates."""
    parts = numpy.split(value, len(order))
    return numpy.concatenate([parts[place] for place in order])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("whole", [False, True])
def test_rnn(whole, direction, activation, dtype):
    tensors, x, (h,) = make_layer(torch.nn.RNN, 1, dtype)
    expected, (last,) = run_torch(
        torch.nn.RNN, tensors, x, [h], direction == "reverse", nonlinearity=activation
    )
    results = compare(
        "rnn", "iOS17", x=x, initial_h=h, weight_ih=tensors["weight_ih"],
        weight_hh=tensors["weight_hh"], bias=tensors["bias_ih"] + tensors["bias_hh"],
        direction=direction, output_sequence=whole, activation=activation, valued=False,
    )  # fmt: skip
    expected = expected if whole else expected[-1:]
    for result, wanted in zip(results, (expected, last), strict=True):
        assert_close(result, wanted.to(result.dtype), 16, magnitude=2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("whole", [False, True])
def test_gru_with_reset_after_is_torchs(whole, direction, dtype):
    tensors, x, (h,) = make_layer(torch.nn.GRU, 3, dtype)
    expected, (last,) = run_torch(torch.nn.GRU, tensors, x, [h], direction == "reverse")
    # torch: reset, update, new. MIL: reset, output (new), update.
    ordered = {key: reorder(value, (0, 2, 1)) for key, value in tensors.items()}
    results = compare(
        "gru", "iOS18", x=x, initial_h=h, weight_ih=ordered["weight_ih"],
        weight_hh=ordered["weight_hh"], bias=ordered["bias_hh"], input_bias=ordered["bias_ih"],
        reset_after=True, direction=direction, output_sequence=whole, valued=False,
    )  # fmt: skip
    expected = expected if whole else expected[-1:]
    for result, wanted in zip(results, (expected, last), strict=True):
        assert_close(result, wanted.to(result.dtype), 16, magnitude=2)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("functions", [("sigmoid", "tanh"), ("tanh", "sigmoid")])
def test_gru_resets_before_the_product(has_bias, functions):
    # The equations of GRULayerParams in NeuralNetwork.proto.
    tensors, x, (h,) = make_layer(torch.nn.GRU, 3, numpy.float64, seed=20)
    named = {"sigmoid": lambda v: 1 / (1 + numpy.exp(-v)), "tanh": numpy.tanh}
    f, g = (named[name] for name in functions)
    (w_r, w_o, w_z), (r_r, r_o, r_z) = (numpy.split(tensors[k], 3) for k in list(tensors)[:2])
    bias = tensors["bias_ih"] if has_bias else numpy.zeros(3 * H)
    b_r, b_o, b_z = numpy.split(bias, 3)
    y, outputs = h, []
    for step in x:
        z = f(step @ w_z.T + y @ r_z.T + b_z)
        r = f(step @ w_r.T + y @ r_r.T + b_r)
        o = g(step @ w_o.T + (y * r) @ r_o.T + b_o)
        y = (1 - z) * o + z * y
        outputs.append(y)
    options = {"bias": bias.astype(numpy.float32)} if has_bias else {}
    results = compare(
        "gru", x=x.astype(numpy.float32), initial_h=h.astype(numpy.float32),
        weight_ih=tensors["weight_ih"].astype(numpy.float32),
        weight_hh=tensors["weight_hh"].astype(numpy.float32), output_sequence=True,
        recurrent_activation=functions[0], activation=functions[1], valued=False, **options,
    )  # fmt: skip
    assert_close(results[0], torch.from_numpy(numpy.stack(outputs)).float(), 16, magnitude=1)
    assert torch.equal(results[1], results[0][-1])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("whole", [False, True])
def test_lstm(whole, direction, dtype):
    tensors, x, states = make_layer(torch.nn.LSTM, 4, dtype, states=2)
    expected, last = run_torch(torch.nn.LSTM, tensors, x, states, direction == "reverse")
    # torch: input, forget, cell, output. MIL: input, forget, output, cell.
    ordered = {key: reorder(value, (0, 1, 3, 2)) for key, value in tensors.items()}
    results = compare(
        "lstm", "iOS17", x=x, initial_h=states[0], initial_c=states[1],
        weight_ih=ordered["weight_ih"], weight_hh=ordered["weight_hh"],
        bias=ordered["bias_ih"] + ordered["bias_hh"], direction=direction,
        output_sequence=whole, valued=False,
    )  # fmt: skip
    expected = expected if whole else expected[-1:]
    for result, wanted in zip(results, (expected, *last), strict=True):
        assert_close(result, wanted.to(result.dtype), 16, magnitude=2)


@pytest.mark.parametrize("whole", [False, True])
def test_bidirectional_lstm(whole):
    x, states, inputs, layer = draw(1, (S, B, I)), [], {}, torch.nn.LSTM(I, H, bidirectional=True)
    states = [draw(2 + i, (2, B, H)) for i in range(2)]
    with torch.no_grad():
        expected, last = layer(torch.from_numpy(x), tuple(map(torch.from_numpy, states)))
    for end, mil in (("", ""), ("_reverse", "_back")):
        parts = {
            k: reorder(getattr(layer, f"{k}_l0{end}").detach().numpy(), (0, 1, 3, 2))
            for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        inputs |= {f"{k}{mil}": parts[k] for k in ("weight_ih", "weight_hh")}
        inputs[f"bias{mil}"] = parts["bias_ih"] + parts["bias_hh"]
    h, c = (numpy.concatenate(list(v), -1) for v in states)
    results = compare(
        "lstm", x=x, initial_h=h, initial_c=c, direction="bidirectional", output_sequence=whole,
        valued=False, **inputs,
    )  # fmt: skip
    joined = [torch.cat(list(v), -1) for v in last]
    for result, wanted in zip(
        results, (expected if whole else joined[0].unsqueeze(0), *joined), strict=True
    ):
        assert_close(result, wanted, 16, magnitude=1)


def test_lstm_with_peepholes_and_a_limit():
    # The equations of LSTMParams in NeuralNetwork.proto.
    tensors, x, (h, c) = make_layer(torch.nn.LSTM, 4, numpy.float64, states=2, seed=40)
    peephole, limit = draw(60, (3 * H,), numpy.float64), 0.4
    p_i, p_f, p_o = numpy.split(peephole, 3)
    y, cell, outputs = h, c, []
    for step in x:
        sums = step @ tensors["weight_ih"].T + y @ tensors["weight_hh"].T + tensors["bias_ih"]
        i, f, o, z = numpy.split(sums, 4, -1)
        i, f = sigmoid(i + p_i * cell), sigmoid(f + p_f * cell)
        cell = numpy.clip(f * cell + i * numpy.tanh(z), -limit, limit)
        y = sigmoid(o + p_o * cell) * numpy.tanh(cell)
        outputs.append(y)
    single = {k: tensors[k].astype(numpy.float32) for k in ("weight_ih", "weight_hh")}
    results = compare(
        "lstm", x=x.astype(numpy.float32), initial_h=h.astype(numpy.float32),
        initial_c=c.astype(numpy.float32), bias=tensors["bias_ih"].astype(numpy.float32),
        peephole=peephole.astype(numpy.float32), clip=numpy.float32(limit),
        output_sequence=True, valued=False, **single,
    )  # fmt: skip
    assert_close(results[0], torch.from_numpy(numpy.stack(outputs)).float(), 16, magnitude=1)
    assert_close(results[2], torch.from_numpy(cell).float(), 16, magnitude=1)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def test_refusals():
    inputs = {"x": torch.ones(2, 1, 3), "initial_h": torch.ones(1, 4),
              "weight_ih": torch.ones(4, 3), "weight_hh": torch.ones(4, 4)}  # fmt: skip
    for name in ("scaled_tanh", "sigmoid_hard"):
        with pytest.raises(UnsupportedProgram, match=r"rnn: .* no documented parameters"):
            compute("rnn", activation=name, **inputs)
    with pytest.raises(ProgramError, match="rnn: unknown activation 'gelu'"):
        compute("rnn", activation="gelu", **inputs)
    with pytest.raises(ProgramError, match="rnn: unknown direction 'both'"):
        compute("rnn", direction="both", **inputs)
    empty = {**inputs, "x": torch.ones(2**40, 0, 3), "initial_h": torch.ones(0, 4)}
    with pytest.raises(ProgramError, match="MIL operation rnn: x "):
        compute("rnn", **empty)
    with pytest.raises(ProgramError, match=r"rnn: weights .* expected"):
        compute("rnn", **{**inputs, "weight_hh": torch.ones(3, 4)})
    state, four = torch.ones(1, 8), {"weight_ih": torch.ones(16, 3)}
    with pytest.raises(ProgramError, match="lstm: an LSTM without weight_ih_back"):
        compute("lstm", x=inputs["x"], initial_h=state, initial_c=state,
                weight_hh=torch.ones(16, 4), direction="bidirectional", **four)  # fmt: skip
