"""What the scripts of this folder share: how a finding is tried, and how a program runs.

Nothing here belongs to the harness: torch and executorch are enough.
"""

import importlib.metadata
import logging
import platform
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

SHOWS, GONE, CANNOT_TRY = 1, 0, 2
"""Exit codes: the defect shows, it is gone, it cannot be tried here."""

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)  # what packages say of themselves as they are imported
try:
    import torch
    from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
except ImportError as error:
    print(f"cannot be tried here: {error}")
    raise SystemExit(CANNOT_TRY) from None


class CannotTry(Exception):
    """Something that the finding needs is not on this machine."""


@dataclass(frozen=True)
class Observation:
    """What a script saw.

    Attributes:
        expected: what a right implementation gives.
        observed: what came.
        wrong: whether the defect shows.
    """

    expected: Any
    observed: Any
    wrong: bool


def main(observe: Callable[[], Observation]) -> NoReturn:
    """Try a finding, print what was expected and what came, and exit with one of the codes.

    An exception that is not the defect itself is not taken for it: it exits with CANNOT_TRY.
    """
    print(f"{_versions()}, {platform.system()} {platform.machine()}")
    try:
        seen = observe()
    except (CannotTry, ImportError) as error:
        print(f"cannot be tried here: {error}")
        sys.exit(CANNOT_TRY)
    except Exception:
        traceback.print_exc()
        print("cannot be judged: it failed in another way than the finding says")
        sys.exit(CANNOT_TRY)
    print(f"expected: {seen.expected}\nobserved: {seen.observed}")
    print("the defect shows" if seen.wrong else "the defect is gone")
    sys.exit(SHOWS if seen.wrong else GONE)


def lower(
    module: torch.nn.Module, inputs: tuple[Any, ...], *partitioners: Any, **options: Any
) -> EdgeProgramManager:
    """Export a module and lower it, as the documentation of executorch does."""
    exported = torch.export.export(module.eval(), inputs)
    return to_edge_transform_and_lower(exported, partitioner=list(partitioners), **options)


def execute(program: bytes, inputs: Sequence[Any]) -> list[Any]:
    """What the native runtime returns for one call of ``forward``."""
    return load(program).execute(list(inputs))


def load(program: bytes) -> Any:
    """The method ``forward``, loaded by the native runtime.

    Raises:
        CannotTry: this executorch has no Python bindings.
    """
    try:
        from executorch.runtime import Runtime
    except ImportError as error:
        raise CannotTry(f"no Python bindings of the runtime: {error}") from error
    return Runtime.get().load_program(program).load_method("forward")


def run(module: torch.nn.Module, inputs: tuple[Any, ...], *partitioners: Any) -> list[Any]:
    """Lower a module, serialize it and run it natively."""
    return execute(bytes(lower(module, inputs, *partitioners).to_executorch().buffer), inputs)


def _versions() -> str:
    named = []
    for package in ("torch", "executorch", "torchao", "mlx"):
        try:
            named.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            named.append(f"no {package}")
    return ", ".join(named)
