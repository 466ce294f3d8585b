"""Convert a module for CoreML and compute its MIL program with coremltools alone.

Off a Mac nothing executes a model. coremltools has a definition in NumPy of most operations, which
it uses to fold constants: each operation of the converted program is built again with constant
inputs, and has a value then.
"""

import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from common import CANNOT_TRY, CannotTry, Observation

try:
    import coremltools
    from coremltools.converters.mil.frontend.milproto.load import load as load_program
    from coremltools.converters.mil.mil import Builder, Function
    from executorch.backends.apple.coreml import executorchcoreml
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
except ImportError as error:
    print(f"cannot be tried here: {error}")
    raise SystemExit(CANNOT_TRY) from None
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower


def convert(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], precision: str = "FLOAT32"
) -> Any:
    """Return the main function of the delegate's program, and the specification of its model."""
    specs = CoreMLBackend.generate_compile_specs(
        compute_precision=coremltools.precision[precision],
        minimum_deployment_target=coremltools.target.iOS18,
    )
    lowered = to_edge_transform_and_lower(
        torch.export.export(module.eval(), tuple(inputs)),
        partitioner=[CoreMLPartitioner(compile_specs=specs)],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    (part,) = [
        each
        for _, each in lowered.exported_program().graph_module.named_children()
        if hasattr(each, "processed_bytes")
    ]
    folder = tempfile.mkdtemp()
    executorchcoreml.unflatten_directory_contents(part.processed_bytes, folder)
    package = next(pathlib.Path(folder).rglob("*.mlpackage"))
    specification = coremltools.models.utils.load_spec(str(package))
    weights = next(package.rglob("weights"), package)
    program = load_program(specification, specification.specificationVersion, str(weights))
    return program.functions["main"], specification


def find_operations(function: Any, kind: str) -> list[Any]:
    """Return the operations of a kind."""
    return [operation for operation in function.operations if operation.op_type == kind]


def compute(function: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Compute a function, each operation by coremltools' own definition."""
    values: dict[str, Any] = {}
    for name, given in zip(function.inputs, inputs, strict=True):
        array = given.reshape(1) if given.dim() == 0 else given
        dtype = {torch.bool: torch.float32, torch.int64: torch.int32}.get(given.dtype)
        values[name] = (array.to(dtype) if dtype else array).numpy()

    def read(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [read(each) for each in value]
        return values.get(value.name, value.val)

    for operation in function.operations:
        if operation.op_type == "const":
            continue
        given = {
            key: read(value)
            for key, value in operation.inputs.items()
            if value is not None and not key.startswith("_")
        }
        with Function({}, opset_version=coremltools.target.iOS18):
            made = getattr(Builder, operation.op_type)(**given)
        results = made if isinstance(made, list | tuple) else [made]
        for output, result in zip(operation.outputs, results, strict=True):
            if result.val is None:
                raise CannotTry(f"coremltools has no definition of {operation.op_type}")
            values[output.name] = result.val
    return [torch.tensor(read(each)) for each in function.outputs]


def fold(kind: str, **inputs: Any) -> Any:
    """Return the value that coremltools infers for an operation on constants, or its error."""
    given = {
        name: value.copy() if hasattr(value, "copy") else value for name, value in inputs.items()
    }
    try:
        with numpy.errstate(all="ignore"), Function({}, opset_version=coremltools.target.iOS18):
            made = getattr(Builder, kind)(**given)
    except (TypeError, ValueError, IndexError) as error:
        return type(error).__name__
    return numpy.asarray((made if isinstance(made, tuple | list) else [made])[0].val).tolist()


class Constants(torch.nn.Module):
    """A function of the program's input and of constants, which it reads as attributes."""

    def __init__(self, function: Callable[..., torch.Tensor], **constants: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, constant in constants.items():
            self.register_buffer(name, constant)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


def compare_folds(
    folds: dict[str, tuple[Any, Any]], programs: dict[str, tuple[torch.nn.Module, torch.Tensor]]
) -> Observation:
    """Compare constant folds with the documentation, and converted programs with their modules.

    Args:
        folds: by name, the documented value and that of coremltools.
        programs: by name, modules of one output and their input.
    """
    expected = {name: documented for name, (documented, _) in folds.items()}
    observed = {name: value for name, (_, value) in folds.items()}
    for name, (module, x) in programs.items():
        expected[name] = module(x).tolist()
        try:
            function, _ = convert(module, (x,))
            (result,) = compute(function, x)
            observed[name] = result.tolist()
        except (TypeError, ValueError, IndexError) as error:
            observed[name] = f"{type(error).__name__}: {error}"
    equal = [numpy.array_equal(observed[name], expected[name]) for name in expected]
    return Observation(_lines(expected), _lines(observed), wrong=not any(equal))


def _lines(values: dict[str, Any]) -> str:
    return "".join(f"\n    {name}: {value}" for name, value in values.items())


def compare(
    module: torch.nn.Module,
    *inputs: torch.Tensor,
    precision: str = "FLOAT32",
    atol: float = 1e-4,
) -> Observation:
    """Compare the only output of the converted program with the module's."""
    function, _ = convert(module, inputs, precision)
    expected = module(*inputs).float()
    (observed,) = compute(function, *inputs)
    return Observation(
        expected.tolist(),
        observed.float().tolist(),
        wrong=not torch.allclose(observed.float().reshape(expected.shape), expected, atol=atol),
    )
