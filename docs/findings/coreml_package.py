"""Convert a module for CoreML and compute its MIL program with coremltools alone.

Off a Mac nothing executes a model. coremltools has a definition in NumPy of most operations, which
it uses to fold constants: each operation of the converted program is built again with constant
inputs, and has a value then.
"""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

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
