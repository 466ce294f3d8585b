"""Compare the dtypes at the border of a delegate with those of the program's tensors.

The delegate reads and writes the program's memory by the dtypes in its payload. A payload that
writes float32 where the program has planned float16 overwrites what is behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from harness.backend_api import Lowered


def find_border_problem(lowered: Lowered) -> str | None:
    """Return how a delegate's float dtypes differ from the program's, or None.

    Reading a payload takes some 10 ms, so delegates with float32 on all sides are not read: they
    have no other float dtype.
    """
    from backends.xnnpack.listing import read_border_dtypes

    for data, inputs, outputs in _list_calls(lowered.edge.graph_module):
        if not any(map(_is_half, [*inputs, *outputs])):
            continue
        sides = zip(("input", "output"), (inputs, outputs), read_border_dtypes(data), strict=True)
        for side, tensors, names in sides:
            for index, (tensor, name) in enumerate(zip(tensors, names, strict=False)):
                expected = _FLOATS.get(str(getattr(tensor, "dtype", "")))
                if expected is not None and name.startswith(("fp", "bf")) and name != expected:
                    dtype = str(tensor.dtype).removeprefix("torch.")
                    return (
                        f"{side} {index} of a delegate is {name} in the payload of XnnpackBackend, "
                        f"and {dtype} in the program: memory beside it would be "
                        f"{'read' if side == 'input' else 'overwritten'}"
                    )
    return None


_FLOATS = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}


def _is_half(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) in ("torch.float16", "torch.bfloat16")


def _list_calls(
    graph: torch.fx.GraphModule,
) -> Iterator[tuple[bytes, list[Any], list[Any]]]:
    """Yield the payload, the inputs and the outputs of each call of the delegate: fake tensors, and
    symbolic sizes."""
    import torch
    from executorch.exir.delegate import executorch_call_delegate

    for node in graph.graph.nodes:
        if node.target is executorch_call_delegate:
            module: Any = getattr(graph, node.args[0].target)
            if module.backend_id == "XnnpackBackend":
                outputs = node.meta["val"]
                outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
                inputs = [each.meta["val"] for each in node.args[1:]]
                yield module.processed_bytes, inputs, list(outputs)
        elif node.op == "get_attr" and isinstance(
            nested := getattr(graph, node.target, None), torch.fx.GraphModule
        ):
            yield from _list_calls(nested)
