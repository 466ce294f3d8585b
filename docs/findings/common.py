"""Shared by the scripts of this folder: run a finding, lower a module, execute a program.

They need torch and executorch, and nothing of this project.
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
logging.disable(logging.WARNING)  # Messages that packages print when they are imported.
try:
    import torch
    from executorch.exir import (
        EdgeCompileConfig,
        EdgeProgramManager,
        to_edge,
        to_edge_transform_and_lower,
    )
except ImportError as error:
    print(f"cannot be tried here: {error}")
    raise SystemExit(CANNOT_TRY) from None


class CannotTry(Exception):
    """This machine lacks something that the finding needs."""


@dataclass(frozen=True)
class Observation:
    """The results of a script.

    Attributes:
        expected: the result of a correct implementation.
        observed: the actual result.
        wrong: whether the defect shows.
    """

    expected: Any
    observed: Any
    wrong: bool


def main(observe: Callable[[], Observation]) -> NoReturn:
    """Run a finding, print the expected and the observed result, and exit with one of the codes.

    Exceptions other than the defect itself exit with CANNOT_TRY.
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


def observe_error(expected: str, sign: str, action: Callable[[], object]) -> Observation:
    """Run an action that a defect turns into an error.

    Args:
        expected: what the action gives without the defect.
        sign: a part of the error's message. Other errors are raised.
        action: is called once.
    """
    try:
        action()
    except Exception as error:
        reason = str(error.__cause__ or error).partition("\n")[0]  # pass managers wrap errors
        if sign not in reason:
            raise
        return Observation(expected, reason, wrong=True)
    return Observation(expected, expected, wrong=False)


def lower(
    module: torch.nn.Module, inputs: tuple[Any, ...], *partitioners: Any, **options: Any
) -> EdgeProgramManager:
    """Export a module and lower it, as in executorch's documentation."""
    exported = torch.export.export(module.eval(), inputs)
    return to_edge_transform_and_lower(exported, partitioner=list(partitioners), **options)


def execute(program: bytes, inputs: Sequence[Any]) -> list[Any]:
    """Run one call of ``forward`` in the native runtime."""
    return load(program).execute(list(inputs))


def load(program: bytes) -> Any:
    """Load the method ``forward`` in the native runtime.

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


def quantize_for_xnnpack(
    module: torch.nn.Module, inputs: tuple[Any, ...], **configuration: Any
) -> torch.export.ExportedProgram:
    """Quantize with XNNPACK's quantizer, and export the quantized module.

    Args:
        module: the module.
        inputs: they calibrate the quantizer.
        configuration: arguments of ``get_symmetric_quantization_config``.
    """
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = xnnpack.XNNPACKQuantizer()
    quantizer.set_global(xnnpack.get_symmetric_quantization_config(**configuration))
    exported = torch.export.export(module.eval(), inputs)
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def run_quantized_on_xnnpack(module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[Any]:
    """Quantize with XNNPACK's quantizer, lower, and run the program.

    Args:
        module: the module.
        inputs: they calibrate the quantizer and are run.
    """
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    edge = to_edge_transform_and_lower(
        quantize_for_xnnpack(module, inputs), partitioner=[XnnpackPartitioner()]
    )
    return execute(bytes(edge.to_executorch().buffer), inputs)


def observe_permuted(
    what: str, observed: torch.Tensor, expected: torch.Tensor, dims: tuple[int, ...]
) -> Observation:
    """Tell a result from the expected one, and from that with its dimensions permuted.

    Args:
        what: names the result.
        observed: of the program.
        expected: of the module, of the same shape also when it is permuted.
        dims: the permutation.
    """
    off, permuted = (
        float((observed - each).abs().max()) for each in (expected, expected.permute(dims))
    )
    if off < 1e-3:
        return Observation(what, what, wrong=False)
    text = f"off by {off:.3g}; {permuted:.1g} off {what} permuted by {dims}"
    return Observation(what, text, wrong=True)


def run_on_tosa(module: torch.nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Lower a module for TOSA-1.0+FP and run it on TOSA's reference model."""
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    edge = lower(module, inputs, TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP")))
    return run_lowered_on_tosa(edge, inputs)


def run_quantized_on_tosa(
    module: torch.nn.Module, inputs: tuple[Any, ...], specification: str, configuration: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize with Arm's quantizer and run the program on TOSA's reference model.

    Args:
        module: returns one tensor.
        inputs: they calibrate the quantizer and are run.
        specification: of TOSA, such as ``TOSA-1.0+INT``.
        configuration: of the quantizer.

    Returns:
        The outputs of the quantized graph and of the program.
    """
    quantized, edge = lower_quantized_for_tosa(module, inputs, specification, configuration)
    observed = run_lowered_on_tosa(edge, inputs)
    return quantized(*inputs), observed


def lower_quantized_for_tosa(
    module: torch.nn.Module, inputs: tuple[Any, ...], specification: str, configuration: Any
) -> tuple[torch.nn.Module, EdgeProgramManager]:
    """Quantize with Arm's quantizer and lower; see ``run_quantized_on_tosa``.

    Returns:
        The quantized graph and the program.
    """
    from executorch.backends.arm.quantizer import TOSAQuantizer
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    target = TosaCompileSpec(specification)
    quantizer = TOSAQuantizer(target).set_global(configuration)
    exported = torch.export.export(module, inputs)
    prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    edge = to_edge_transform_and_lower(
        torch.export.export(quantized, inputs), partitioner=[TOSAPartitioner(target)]
    )
    return quantized, edge


def run_lowered_on_tosa(edge: EdgeProgramManager, inputs: tuple[Any, ...]) -> Any:
    """Run a program on TOSA's reference model."""
    from executorch.backends.arm.test.runner_utils import TosaReferenceModelDispatch

    with TosaReferenceModelDispatch():
        return edge.exported_program().module()(*inputs)


def rewrite_for_tosa(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Prepare a module with Arm's quantizer, and run it before anything is quantized.

    Args:
        module: returns one tensor.
        inputs: they are run.
    """
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config())
    exported = torch.export.export(module, inputs).module(check_guards=False)
    return prepare_pt2e(exported, quantizer)(*inputs)


def run_quantized_on_cortex_m(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize and lower for Cortex-M, and run the graph on Arm's reference kernels.

    Args:
        module: returns one tensor.
        inputs: they calibrate the quantizer and are run.

    Returns:
        The outputs of the quantized graph and of the lowered one.
    """
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(module.eval(), inputs)
    prepared = prepare_pt2e(exported.module(check_guards=False), CortexMQuantizer())
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    # The part of cortex_m_edge_compile_config that these programs need; 1.4.1 has no such function.
    config = EdgeCompileConfig(
        preserve_ops=[torch.ops.aten.linear.default, torch.ops.aten.hardsigmoid.default],
        _check_ir_validity=False,
    )
    edge = to_edge(torch.export.export(quantized, inputs), compile_config=config)
    lowered = CortexMPassManager(edge.exported_program()).transform()
    return quantized(*inputs), lowered.module()(*inputs)


def _versions() -> str:
    named = []
    for package in ("torch", "executorch", "torchao", "mlx"):
        try:
            named.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            named.append(f"no {package}")
    return ", ".join(named)
