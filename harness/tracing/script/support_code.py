"""Code that is copied into the scripts; each function or class is copied as it is here.

It uses only torch and executorch.
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
    """The defect cannot be tried on this machine."""


def unpack(text: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return a tensor from its compressed bytes."""
    data = bytearray(zlib.decompress(base64.b85decode("".join(text.split()))))
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


class Float64(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every ATen operator in float64, whatever dtypes the graph names.

    Operators that quantize or dequantize run unchanged, so that they round as in the program.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        wide = torch.float64 if func.namespace in ("aten", "prims") else torch.float32

        def convert(item: Any) -> Any:
            if isinstance(item, torch.dtype) and item.is_floating_point:
                return wide
            return widen(item, wide)

        if not func._schema.is_mutable:  # an output argument already has its dtype
            args, kwargs = tree_map(convert, (args, kwargs or {}))
        return tree_map(widen, func(*args, **(kwargs or {})))


def widen(item: Any, wide: torch.dtype = torch.float64) -> Any:
    """Return a floating tensor in a wider dtype. Other values and one-byte dtypes stay the same."""
    is_float = isinstance(item, torch.Tensor) and item.is_floating_point()
    return item.to(wide) if is_float and item.dtype.itemsize > 1 else item


def call_model(model: Any, call: Any, changed: Any) -> list[Any]:
    """Return the values of one call: the inputs that it changes, then the outputs."""
    inputs = [item.clone() if isinstance(item, torch.Tensor) else item for item in call]
    outputs = model(*inputs)
    return [*(inputs[position] for position in changed), *outputs]


def compute_expected(
    eager: Any, exact: Any, mode: Any, calls: Any, changed: Any
) -> list[list[Any]]:
    """Return, for each value of each call, eager's result and the same result in float64.

    Args:
        eager: the model.
        exact: a copy of the model, which is converted to float64.
        mode: context manager under which the copy runs.
        calls: inputs of each call; state persists between calls.
        changed: positions of the inputs that the program changes.
    """
    exact._apply(widen)
    found = []
    with torch.no_grad():
        for call in calls:
            plain = call_model(eager, call, changed)
            torch.set_default_dtype(torch.float64)
            with mode():
                wide = call_model(exact, tree_map(widen, call), changed)
            torch.set_default_dtype(torch.float32)
            found.append(list(zip(plain, wide, strict=True)))
    return found


def execute(program: bytes, calls: Any, delegate: str, beside: Path) -> list[list[Any]]:
    """Return the outputs of the runtime for each call of a program.

    Args:
        program: the bytes of the ``.pte``.
        calls: inputs of each call.
        delegate: backend that the runtime must have registered; empty for none.
        beside: where the program is saved if the runtime does not have it.
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

    def copy(item: Any) -> Any:  # the next call overwrites the output
        return item.clone() if isinstance(item, torch.Tensor) else item

    return [[copy(item) for item in method.execute(list(call))] for call in calls]


def compare_value(name: str, value: Any, eager: Any, truth: Any, bound: Any) -> bool:
    """Print how large the error of a value is; return whether it exceeds its bound."""
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
    print(f"{name}: {int(beyond.sum())} of {len(error)} elements exceed their bound")
    if bool(beyond.any()):
        used = error / bound.flatten().double().clamp(min=1e-300)
        worst = int(used.argmax())
        print(f"  largest error: {float(error.max()):.3g}")
        figures = f"error {float(error[worst]):.3g}, bound {float(bound.flatten()[worst]):.3g}"
        print(
            f"  element {worst} uses most of its bound: {float(used[worst]):.3g} times, {figures}"
        )
        print(f"  expected {float(truth[worst])!r}, got {float(value[worst])!r}")
    return bool(beyond.any())


def compare_all(actual: Any, wanted: Any, bounds: Any) -> int:
    """Compare all values; return 1 when one is wrong, else 0."""
    wrong = False
    for call, (values, pairs) in enumerate(zip(actual, wanted, strict=True)):
        if len(values) != len(pairs):
            print(f"call {call}: {len(values)} values, expected {len(pairs)}")
            wrong = True
            continue
        for number, (value, (eager, truth)) in enumerate(zip(values, pairs, strict=True)):
            name = f"call {call}, value {number}"
            wrong |= compare_value(name, value, eager, truth, bounds[call][number])
    print("the defect shows" if wrong else "the defect is gone")
    return 1 if wrong else 0


def report_failure(stage: str, error: BaseException, wanted: Any) -> int:
    """Print how a stage failed; return 1 when it is the stage that was expected to fail, else 2."""
    while error.__cause__ is not None:
        error = error.__cause__
    print(f"{stage} fails with {type(error).__name__}: {error}")
    if stage != wanted:
        print("cannot be tried here: it fails in another way than observed")
        return 2
    print("the defect shows")
    return 1


def run_in_child_process(main: Callable[[], int]) -> int:
    """Run in a child process, because the program may crash it; return 1 when it does."""
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
    widen,
    call_model,
    compute_expected,
    execute,
    compare_value,
    compare_all,
    report_failure,
    run_in_child_process,
)
"""All functions and classes, in the order in which scripts contain them."""
