"""What of the vendors each part stands in for, and whether it is still what was read.

A part whose originals are other than those that it was written against, or are gone, is left
out: programs would come out otherwise, or not at all. ``known.json`` has a digest of the code of
each, one for every release that was read; comments and docstrings do not count.

``python -m harness.pipeline.speed.originals`` prints what is not known of the installed packages,
``--write`` takes it into the file, which is to be done after reading what changed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

_FILE = Path(__file__).with_name("known.json")

_EXPORTED = "torch.export.exported_program"
_FAKE = "torch._subclasses.fake_tensor"
_PASS = "executorch.exir.pass_base"
_PROXY = "torch.fx.experimental.proxy_tensor"
_TORCH_PASS = "torch._export.pass_base"
_ARM_VIEWS = "executorch.backends.transforms.propagate_view_copy_permute_pass"
_XNNPACK = "executorch.backends.xnnpack._passes"
_AUTO_FUNCTIONALIZED = (
    "torch.export._remove_auto_functionalized_pass:unsafe_remove_auto_functionalized_pass"
)

REPLACED: dict[str, tuple[str, ...]] = {
    "calibration": (
        "torchao.quantization.pt2e.observer:HistogramObserver._non_linear_param_search",
    ),
    "code": (
        "torch.fx.graph_module:GraphModule.recompile",
        "torch.fx.graph_module:GraphModule.__reduce__",
    ),
    "lean": (_AUTO_FUNCTIONALIZED,),
    "converting.decomposing": (f"{_EXPORTED}:ExportedProgram.run_decompositions",),
    "converting.edge": ("executorch.exir.program._program:_generate_edge_program",),
    "delegating.merging": (
        "executorch.exir.backend.canonical_partitioners.group_partitioner"
        ":GroupBasedPartitioner._can_merge_partitions",
    ),
    "delegating.payloads": (
        "executorch.backends.xnnpack.serialization.xnnpack_graph_serialize:convert_to_flatbuffer",
        "executorch.exir._serialize._dataclass:_DataclassEncoder.default",
        "executorch.exir._serialize._flatbuffer:_replace_non_finite_in_json",
        "executorch.exir._serialize._flatbuffer:_flatc_compile",
        "flatbuffers.builder:Builder.WriteVtable",
    ),
    "walking.delegated": (
        "torch._higher_order_ops.executorch_call_delegate:call_delegate_cpu",
        "torch._higher_order_ops.executorch_call_delegate:trace_call_delegate",
        "torch._higher_order_ops.executorch_call_delegate:call_delegate_fake_tensor_mode",
    ),
    "walking.faked": (
        "executorch.exir.dialects.edge._ops:EdgeOpOverload.__call__",
        "torch.fx.interpreter:Interpreter.call_function",
        f"{_FAKE}:FakeTensorMode.dispatch",
        f"{_FAKE}:FakeTensor.__new__",
        f"{_FAKE}:FakeTensor.__init__",
    ),
    "forgotten": (
        "executorch.exir.backend.utils:is_identical_graph",
        "executorch.exir.backend.utils:WhyNoPartition.__call__",
        f"{_FAKE}:_set_cache_key",
    ),
    "inductor": (
        "torch._inductor.dtype_propagation:DtypePropagationOpsHandler.__init__",
        "torch._dynamo.utils:record_compilation_metrics",
    ),
    "kept": (
        f"{_EXPORTED}:_override_composite_implicit_decomp",
        "torch._export.utils:_collect_all_valid_cia_ops",
        "torch._export.utils:_collect_all_valid_cia_ops_for_namespace",
        "torch._export.utils:_materialize_cpp_cia_ops",
        "torch._decomp.decompositions_for_rng:PhiloxState.reset",
        f"{_EXPORTED}:ExportedProgram.call_spec",
        "executorch.exir.tensor:dim_order_from_stride",
        "torch.fx.graph:_snake_case",
        "torch._ops:OpOverload.decompose",
        f"{_PROXY}:maybe_handle_decomp",
    ),
    "walking.propagation": (
        f"{_ARM_VIEWS}:PropagateViewCopyPermutePass._retrace",
        f"{_ARM_VIEWS}:PropagateViewCopyPermutePass.call",
    ),
    "walking.replay": (
        f"{_PASS}:_ExportPassBase.ExportInterpreter.run_node",
        f"{_PROXY}:PythonKeyTracer.create_arg",
        f"{_PASS}:_ExportPassBase.ExportTracer.create_arg",
        f"{_PASS}:ExportPass.ExportTracer.create_arg",
    ),
    "walking.retracing": (
        f"{_PASS}:_ExportPassBase.__init__",
        f"{_PASS}:_ExportPassBase.call",
        f"{_PASS}:_ExportPassBase.call_operator",
        f"{_PASS}:_ExportPassBase.call_submodule",
        f"{_TORCH_PASS}:_ExportPassBaseDeprecatedDoNotUse.call",
    ),
    "converting.tables": (
        "torch.export.decomp_utils:CustomDecompTable.materialize",
        "torch._export.utils:_get_decomp_for_cia",
        f"{_EXPORTED}:_split_decomp_table_to_cia_and_python_decomp",
        f"{_EXPORTED}:default_decompositions",
        "torch._decomp:get_decompositions",
    ),
    "converting.tracing": (
        "torch.fx._symbolic_trace:_Patcher.patch_method",
        "torch.fx._symbolic_trace:Tracer.trace",
        f"{_PROXY}:PythonKeyTracer.getattr",
        f"{_PROXY}:PythonKeyTracer.call_module",
        f"{_PROXY}:_ModuleStackTracer.getattr",
        f"{_PROXY}:_ModuleStackTracer.call_module",
        "torch.fx.proxy:TracerBase.create_node",
        "torch.fx.proxy:TracerBase._filter_traceback_frames",
    ),
    "patterns": (
        "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils"
        ":_get_aten_graph_module_for_pattern",
    ),
    "untold": (
        "executorch.exir.backend.backend_api:_create_partitions_in_graph_module",
        f"{_XNNPACK}.convert_to_linear:ConvertToLinearPass.call",
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
    ),
    "walking.unmatched": (
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
        f"{_XNNPACK}.convert_to_upsample_bilinear2d:ConvertToUpsampleBilinear2d.call",
        "executorch.backends.xnnpack.partition.graphs.sdpa:get_graphs",
        "executorch.backends.xnnpack.partition.graphs.bilinear_2d:_get_bilinear_2d_graphs",
    ),
    "walking.verifying": (
        "executorch.exir.verification.verifier:_check_tensor_args_matching_op_allowed_dtype",
        "executorch.exir.verification.arg_validator:EdgeOpArgValidator.run_node",
        "executorch.exir.verification.arg_validator:EdgeOpArgValidator.call_function",
        "torch._export.verifier:Verifier._check_graph_module",
        "executorch.exir.pass_manager:ExportedProgramPassManager.check",
        "torch._export.verifier:_verify_exported_program_module_call_graph",
        "torch._export.verifier:_verify_exported_program_signature",
        "executorch.exir.program._program:_remove_invalid_ops_for_not_decompose",
    ),
}
"""By part, the functions it replaces, ``module:name``."""


def problems(part: str) -> list[str]:
    """Why a part must be left out, a reason a function; nothing where all are as they were read."""
    return [said for name in REPLACED[part] if (said := _problem(name))]


def _problem(name: str) -> str:
    try:
        found = digest(name)
    except (ImportError, AttributeError) as error:
        return f"{name} is not there: {error}"
    except (OSError, TypeError) as error:
        return f"{name} has no source to read: {error}"
    return "" if found in _known().get(name, ()) else f"{name} is not the one that was read"


def digest(name: str) -> str:
    """Of the code of a function, without comments and docstrings.

    Args:
        name: ``module:qualified.name``.

    Raises:
        ImportError: there is no such module.
        AttributeError: it has no such function.
        OSError: its source is not there.
    """
    module, _, attributes = name.partition(":")
    if name == _AUTO_FUNCTIONALIZED:
        return _digest_of(_function_in_file(module, attributes))
    found: Any = importlib.import_module(module)
    for attribute in attributes.split("."):
        found = inspect.getattr_static(found, attribute)
    while not inspect.isfunction(found):
        inner = getattr(found, "fget", None) or getattr(found, "__wrapped__", None)
        if inner is None:
            break
        found = inner
    return _digest_of(ast.parse(textwrap.dedent(inspect.getsource(found))))


def _function_in_file(module: str, name: str) -> ast.Module:
    """A function of a module that is not to be imported, nor its package."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    tree = ast.parse(Path(spec.origin).parent.joinpath(*rest).with_suffix(".py").read_bytes())
    found = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    if not found:
        raise AttributeError(f"module {module!r} has no function {name!r}")
    return ast.Module([*found], [])


def _digest_of(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(_text(tree).encode()).hexdigest()[:16]


def _text(node: object) -> str:
    """A syntax tree as text that is the same in every Python: each has fields of its own, empty
    where code does not use them."""
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    return f"{type(node).__name__}({','.join(f'{name}={_text(value)}' for name, value in fields)})"


@functools.cache
def _known() -> dict[str, list[str]]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, list[str]])


def main(arguments: list[str]) -> int:
    """Print what is not known of the installed packages, or take it into the file."""
    found = {part: problems(part) for part in REPLACED}
    for part, lines in found.items():
        for line in lines:
            print(f"{part}: {line}")
    if "--write" not in arguments:
        return int(any(found.values()))
    known = dict(_known())
    for name in (name for names in REPLACED.values() for name in names):
        if "is not the one that was read" in _problem(name):
            known[name] = [*known.get(name, []), digest(name)]
    ordered = dict(sorted(known.items()))
    _FILE.write_bytes(msgspec.json.format(msgspec.json.encode(ordered)) + b"\n")
    return 0
