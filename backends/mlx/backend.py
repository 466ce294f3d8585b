"""The MLX recipes and how their programs are executed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from backends.mlx import generated
from harness.backend import Availability, Execution, Recipe
from harness.case import Inputs
from harness.precision import Precision

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.backend.partitioner import Partitioner

    from harness.tester import Tester

DELEGATE = "MLXBackend"


def partitioners() -> list[Partitioner]:
    """The delegate's partitioner; it takes no options."""
    generated.install()
    from executorch.backends.mlx import MLXPartitioner

    return [MLXPartitioner()]


def passes() -> list[Any]:
    """The backend's default passes, the one that makes operations in-place last."""
    generated.install()
    from executorch.backends.mlx.passes import get_default_passes

    return list(get_default_passes())


def edge_config() -> EdgeCompileConfig:
    """In-place edge operators are not core ATen, and the delegate knows no dim order."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)


def _recipe(name: str, precision: Precision, dtype: str = "float32", **options: Any) -> Recipe:
    return Recipe(
        name,
        precision,
        dtype=dtype,
        partitioners=partitioners,
        transform_passes=passes,
        edge_config=edge_config,
        **options,
    )


PRECISION = Precision()


class Mlx:
    """Runs the delegate's payload: natively where the runtime has it, else with ``mlx.core``."""

    name = "mlx"
    recipes = {
        "fp32": _recipe("fp32", PRECISION),
        "fp16": _recipe("fp16", PRECISION, "float16"),
        "bf16": _recipe("bf16", PRECISION, "bfloat16"),
    }

    @functools.cache  # noqa: B019  (one instance per process)
    def availability(self) -> Availability:
        """Ask the runtime for the delegate, then for what executes it without."""
        packages = ("mlx", "executorch", "torch")
        try:
            generated.install()
            import mlx.core
        except Exception as error:
            reason = f"{error}; install mlx in the version that pyproject.toml pins"
            return Availability(False, reason, packages=packages)
        del mlx
        from harness.execute import native_backends

        runtime = "native" if DELEGATE in native_backends() else "emulated"
        return Availability(True, runtime=runtime, packages=packages)

    def execute(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Run natively where possible; a program without a delegate always is."""
        from harness.execute import native_backends, run_native
        from harness.program import Program

        if not Program(program).plan.delegates or DELEGATE in native_backends():
            return Execution(run_native(program, calls), "native")
        return self.emulate(program, calls)

    def emulate(self, program: bytes, calls: Sequence[Inputs]) -> Execution:
        """Interpret the program, each delegate call with ``mlx.core``."""
        from backends.mlx.delegate import load
        from harness.execute import Interpreter

        interpreter = Interpreter(program, {DELEGATE: load})
        return Execution([interpreter(inputs) for inputs in calls], "emulated")

    def inspect(self, tester: Tester) -> Iterable[str]:
        """The instruction listing of the cell's program and where it leaves its reference."""
        from backends.mlx.listing import inspect

        return inspect(tester)


BACKEND = Mlx()
