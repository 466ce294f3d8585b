"""Code that scripts carry with them, each function or class as it stands here.

Nothing of the harness is used: what is written needs torch and executorch alone.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class CannotTry(Exception):
    """Something that it takes to show the defect is not on this machine."""


def unpack(text: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """A tensor out of its compressed bytes."""
    data = bytearray(zlib.decompress(base64.b85decode("".join(text.split()))))
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


class Float64(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every ATen operator in float64, whatever dtypes the graph names.

    Others, which encode values or decode them, run as they are: what they do is exact, or a step
    that falls as it does in the program.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        wide = torch.float64 if func.namespace in ("aten", "prims") else torch.float32

        def convert(item: Any) -> Any:
            if isinstance(item, torch.dtype) and item.is_floating_point:
                return wide
            return widened(item, wide)

        if not func._schema.is_mutable:  # what is written to has its dtype already
            args, kwargs = tree_map(convert, (args, kwargs or {}))
        return tree_map(widened, func(*args, **(kwargs or {})))


def widened(item: Any, wide: torch.dtype = torch.float64) -> Any:
    """A floating tensor in another dtype, but for codes of one byte; the rest as it is."""
    is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
    return item.to(wide) if is_float and item.dtype.itemsize > 1 else item


def returned(model: Any, call: Any, changed: Any) -> list[Any]:
    """What a program returns for a call: the inputs that it changed, then the outputs."""
    inputs = [item.clone() if isinstance(item, torch.Tensor) else item for item in call]
    outputs = model(*inputs)
    return [*(inputs[position] for position in changed), *outputs]


def expected(eager: Any, exact: Any, mode: Any, calls: Any, changed: Any) -> list[list[Any]]:
    """For each value of each call what eager returns, and the same in float64.

    Args:
        eager: the model.
        exact: a copy of it, which is made to run in float64.
        mode: what it runs under.
        calls: inputs of each call; state persists over them.
        changed: positions of the inputs that are returned.
    """
    exact._apply(widened)
    found = []
    with torch.no_grad():
        for call in calls:
            plain = returned(eager, call, changed)
            torch.set_default_dtype(torch.float64)
            with mode():
                wide = returned(exact, tree_map(widened, call), changed)
            torch.set_default_dtype(torch.float32)
            found.append(list(zip(plain, wide, strict=True)))
    return found


def execute(program: bytes, calls: Any, delegate: str, beside: Path) -> list[list[Any]]:
    """What the runtime returns for each call of a program.

    Args:
        program: the bytes of the ``.pte``.
        calls: inputs of each call.
        delegate: what the runtime must have registered; empty for nothing.
        beside: where the program is written when it has not.
    """
    try:
        from executorch.runtime import Runtime, Verification
    except ImportError as error:
        raise CannotTry(f"this executorch has no runtime for Python: {error}") from error
    runtime = Runtime.get()
    if delegate and delegate not in runtime.backend_registry.registered_backend_names:
        beside.write_bytes(program)
        raise CannotTry(f"the runtime has no {delegate}; the program is in {beside}")
    loaded = runtime.load_program(program, verification=Verification.InternalConsistency)
    method: Any = loaded.load_method("forward")

    def kept(item: Any) -> Any:  # the next call writes over it
        return item.clone() if isinstance(item, torch.Tensor) else item

    return [[kept(item) for item in method.execute(list(call))] for call in calls]


def exceeds(name: str, value: Any, eager: Any, truth: Any, bound: Any) -> bool:
    """Print how far a value is off, and say whether it is beyond its bound."""
    if bound is None or not isinstance(eager, torch.Tensor):
        print(f"{name}: {value!r}, expected {eager!r}")
        return not (type(value) is type(eager) and value == eager)
    if (value.dtype, value.shape) != (eager.dtype, eager.shape):
        print(f"{name}: {value.dtype} {value.shape}, expected {eager.dtype} {eager.shape}")
        return True
    if value.is_complex():
        value, truth = torch.view_as_real(value), torch.view_as_real(truth)
    elif not value.is_floating_point():
        truth = eager
    value, truth = value.double().flatten(), truth.double().flatten()
    same = (value == truth) | (value.isnan() & truth.isnan())
    error = (value - truth).abs().nan_to_num(torch.inf).masked_fill(same, 0.0)
    beyond = error > bound.flatten()
    print(f"{name}: {int(beyond.sum())} of {len(error)} elements are beyond their bound")
    if bool(beyond.any()):
        used = error / bound.flatten().double().clamp(min=1e-300)
        worst = int(used.argmax())
        print(f"  largest error {float(error.max()):.3g}; at element {worst}, where it is")
        print(f"  {float(error[worst]):.3g} and the bound {float(bound.flatten()[worst]):.3g}:")
        print(f"  expected {float(truth[worst])!r}, got {float(value[worst])!r}")
    return bool(beyond.any())


def judge(actual: Any, wanted: Any, bounds: Any) -> int:
    """Compare all values; 1 when one is wrong, else 0."""
    wrong = False
    for call, (values, pairs) in enumerate(zip(actual, wanted, strict=True)):
        if len(values) != len(pairs):
            print(f"call {call}: {len(values)} values, expected {len(pairs)}")
            wrong = True
            continue
        for number, (value, (eager, truth)) in enumerate(zip(values, pairs, strict=True)):
            name = f"call {call}, value {number}"
            wrong |= exceeds(name, value, eager, truth, bounds[call][number])
    print("the defect shows" if wrong else "the defect is gone")
    return 1 if wrong else 0


def failed(stage: str, error: BaseException, wanted: Any) -> int:
    """Say how a stage failed; 1 when it is the one that was expected to, else 2."""
    while error.__cause__ is not None:
        error = error.__cause__
    print(f"{stage} fails with {type(error).__name__}: {error}")
    if stage != wanted:
        print("cannot be judged: it fails in another way than was seen")
        return 2
    print("the defect shows")
    return 1


def in_child(main: Callable[[], int]) -> int:
    """Run in a process of its own, which may die; 1 when it does."""
    if "--child" in sys.argv:
        return main()
    code = subprocess.run([sys.executable, sys.argv[0], "--child"], check=False).returncode
    if code < 0:
        print(f"the process was ended by signal {-code}: the defect shows")
        return 1
    return code


PIECES: tuple[Any, ...] = (
    CannotTry,
    unpack,
    Float64,
    widened,
    returned,
    expected,
    execute,
    exceeds,
    judge,
    failed,
    in_child,
)
"""All of it, in the order in which scripts have it."""
