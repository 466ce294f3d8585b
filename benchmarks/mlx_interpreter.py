"""Cost of interpreting an MLX program, compared with the same model written by hand in
``mlx.core``.

    python -m benchmarks.mlx_interpreter [CALLS]

Lowers DeiT-Tiny (12 layers, 64 × 64 images), executes its payload, and runs a hand-written version
with the same weights. Calls alternate within one run; the result is the ratio of the medians. The
aim is at most 1.3. Outputs are compared first, to check that both do the same work.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import torch
from rich.console import Console
from rich.table import Table

from backends.mlx.execution.delegate import make_executor, to_mlx
from harness import Tester
from harness.backend_api import Program
from harness.session.discovery import find_case

AIM = 1.3


def build_by_hand(model: torch.nn.Module) -> Callable[[mx.array], mx.array]:
    """DeiT for image classification with the weights of a transformers module."""
    w = {name: to_mlx(tensor.contiguous()) for name, tensor in model.state_dict().items()}
    config = model.config
    heads = config.num_attention_heads
    eps = config.layer_norm_eps
    patch = to_mlx(
        model.state_dict()["deit.embeddings.patch_embeddings.projection.weight"]
        .permute(0, 2, 3, 1)
        .contiguous()
    )
    transposed = {name: value.T for name, value in w.items() if value.ndim == 2}
    mx.eval(list(w.values()), patch, list(transposed.values()))

    def linear(x: mx.array, name: str) -> mx.array:
        return mx.addmm(w[f"{name}.bias"], x, transposed[f"{name}.weight"])

    def norm(x: mx.array, name: str) -> mx.array:
        return mx.fast.layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)

    def attention(x: mx.array, name: str) -> mx.array:
        batch, length, width = x.shape
        q, k, v = (
            linear(x, f"{name}.{part}_proj")
            .reshape(batch, length, heads, width // heads)
            .transpose(0, 2, 1, 3)
            for part in "qkv"
        )
        scale = (width // heads) ** -0.5
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale)
        return linear(mixed.transpose(0, 2, 1, 3).reshape(batch, length, width), f"{name}.o_proj")

    def gelu(x: mx.array) -> mx.array:
        return 0.5 * x * (1 + mx.erf(x * 0.7071067811865476))

    def run(image: mx.array) -> mx.array:
        embeddings = "deit.embeddings"
        x = mx.conv2d(image.transpose(0, 2, 3, 1), patch, stride=config.patch_size)
        x = x + w[f"{embeddings}.patch_embeddings.projection.bias"]
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        cls, distillation = w[f"{embeddings}.cls_token"], w[f"{embeddings}.distillation_token"]
        x = mx.concatenate([cls, distillation, x], axis=1) + w[f"{embeddings}.position_embeddings"]
        for layer in range(config.num_hidden_layers):
            name = f"deit.layers.{layer}"
            x = x + attention(norm(x, f"{name}.layernorm_before"), f"{name}.attention")
            hidden = gelu(linear(norm(x, f"{name}.layernorm_after"), f"{name}.mlp.fc1"))
            x = x + linear(hidden, f"{name}.mlp.fc2")
        return linear(norm(x, "deit.layernorm")[:, 0], "classifier")

    return run


def main(calls: int = 200) -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    case, _ = find_case(Path("suites"), "deit/tiny")
    tester = Tester(case, "mlx:fp32").export().lower().to_executorch().serialize()
    program = make_executor(Program(tester.program).delegates[0])
    twin = build_by_hand(tester.built.module.model)
    image = to_mlx(tester.built.inputs[0])
    ours, theirs = program([image])[0], twin(image)
    if not mx.allclose(ours, theirs, rtol=1e-4, atol=1e-4).item():
        raise SystemExit("the hand-written model computes something else")
    seconds: dict[str, list[float]] = {"interpreted": [], "by hand": []}
    for _ in range(calls):
        start = time.perf_counter()
        program([image])
        seconds["interpreted"].append(time.perf_counter() - start)
        start = time.perf_counter()
        mx.eval(twin(image))
        seconds["by hand"].append(time.perf_counter() - start)
    instructions = sum(map(len, program.graph.chains))
    table = Table(title=f"DeiT-Tiny, {instructions} instructions, {calls} calls, milliseconds")
    for column in ("", "median", "fastest"):
        table.add_column(column, justify="right")
    for name, spent in seconds.items():
        table.add_row(name, f"{statistics.median(spent) * 1e3:.2f}", f"{min(spent) * 1e3:.2f}")
    Console().print(table)
    ratio = statistics.median(seconds["interpreted"]) / statistics.median(seconds["by hand"])
    print(f"ratio of the medians {ratio:.2f}; aim: at most {AIM}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
