"""Inductor's Metal kernels let every lane of a reduction read and write the same buffer element.

The script generates the kernel for MPS, which needs no Mac, and reads its source.
"""

import re
from contextlib import ExitStack
from unittest import mock

import torch
from common import Observation, main


def add_largest(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    return state.add_(x.amax(0))


def generated() -> str:
    """Generate the code of ``torch.compile(add_largest, dynamic=True)`` for a Mac and a dynamic
    length."""
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    sizes = ShapeEnv()
    mode = FakeTensorMode(shape_env=sizes)
    length = mode.from_tensor(torch.empty(50, 6, device="meta"), static_shapes=False).shape[0]
    with mode:
        inputs = torch.empty(length, 6, device="mps"), torch.empty(6, device="mps")
    traced = make_fx(torch.func.functionalize(add_largest))(*inputs)
    with ExitStack() as stack:
        stack.enter_context(V.set_fake_mode(mode))
        stack.enter_context(V.set_debug_handler(DebugContext()))
        for owner, name, answer in (
            (torch.mps, "is_available", True),
            (torch._C, "_mps_get_core_count", 10),
        ):
            pretended = mock.Mock(return_value=answer)
            stack.enter_context(mock.patch.object(owner, name, pretended, create=True))
        graph = GraphLowering(traced, example_inputs=list(inputs), shape_env=sizes)
        stack.enter_context(V.set_graph_handler(graph))
        graph.run(*inputs)
        return graph.codegen()[0].value


def observe() -> Observation:
    code = generated()
    called = re.search(r"generated_kernel_0\(([^)]*?), s\d+, threads", code)[1].split(", ")
    names = re.findall(r"(?:device|constant) float\* (\w+)", code)
    state = {name for name, given in zip(names, called, strict=True) if given == "state_1"}
    after = code.partition("threadgroup_max(")[2].partition("\n    }\n")[0].splitlines()[1:]
    for line in after:
        print(line.strip())
    print("one buffer:", *sorted(state))
    read = any(f"= {name}[" in line for line in after for name in state)
    written = any(line.strip().startswith(f"{name}[") for line in after for name in state)
    return Observation(
        "one lane writes, if (r0_index == 0)",
        "all lanes read and write" if read and written else "not all lanes do",
        wrong=read and written,
    )


if __name__ == "__main__":
    main(observe)
