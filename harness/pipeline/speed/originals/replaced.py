"""The functions that each part replaces."""

from __future__ import annotations

_EXPORTED = "torch.export.exported_program"
_FAKE = "torch._subclasses.fake_tensor"
_PASS = "executorch.exir.pass_base"
_PROXY = "torch.fx.experimental.proxy_tensor"
_TORCH_PASS = "torch._export.pass_base"
_XNNPACK = "executorch.backends.xnnpack._passes"

REPLACED: dict[str, tuple[str, ...]] = {
    "calibration": (
        "torchao.quantization.pt2e.observer:HistogramObserver._non_linear_param_search",
    ),
    "graph_code": (
        "torch.fx.graph_module:GraphModule.recompile",
        "torch.fx.graph_module:GraphModule.__reduce__",
    ),
    "export.decompositions": (f"{_EXPORTED}:ExportedProgram.run_decompositions",),
    "passes.fake_results": (
        "executorch.exir.dialects.edge._ops:EdgeOpOverload.__call__",
        "torch.fx.interpreter:Interpreter.call_function",
        f"{_FAKE}:FakeTensorMode.dispatch",
        f"{_FAKE}:FakeTensor.__new__",
        f"{_FAKE}:FakeTensor.__init__",
    ),
    "eviction": (
        "executorch.exir.backend.utils:is_identical_graph",
        "executorch.exir.backend.utils:WhyNoPartition.__call__",
        f"{_FAKE}:_set_cache_key",
    ),
    "memoized": (
        f"{_EXPORTED}:_override_composite_implicit_decomp",
        "torch._export.utils:_collect_all_valid_cia_ops",
        "torch._export.utils:_collect_all_valid_cia_ops_for_namespace",
        "torch._export.utils:_materialize_cpp_cia_ops",
        "torch._decomp.decompositions_for_rng:PhiloxState.reset",
        f"{_EXPORTED}:ExportedProgram.call_spec",
        "executorch.exir.tensor:dim_order_from_stride",
        "torch.fx.graph:_snake_case",
        "executorch.exir.program._program:_remove_invalid_ops_for_not_decompose",
        "torch._ops:OpOverload.decompose",
        f"{_PROXY}:maybe_handle_decomp",
    ),
    "passes.argument_trees": (
        f"{_PASS}:_ExportPassBase.ExportInterpreter.run_node",
        f"{_PROXY}:PythonKeyTracer.create_arg",
        f"{_PASS}:_ExportPassBase.ExportTracer.create_arg",
        f"{_PASS}:ExportPass.ExportTracer.create_arg",
    ),
    "passes.skipped_walks": (
        f"{_PASS}:_ExportPassBase.__init__",
        f"{_PASS}:_ExportPassBase.call",
        f"{_PASS}:_ExportPassBase.call_operator",
        f"{_PASS}:_ExportPassBase.call_submodule",
        f"{_TORCH_PASS}:_ExportPassBaseDeprecatedDoNotUse.call",
    ),
    "export.decomposition_tables": (
        "torch.export.decomp_utils:CustomDecompTable.materialize",
        "torch._export.utils:_get_decomp_for_cia",
        f"{_EXPORTED}:_split_decomp_table_to_cia_and_python_decomp",
        f"{_EXPORTED}:default_decompositions",
        "torch._decomp:get_decompositions",
    ),
    "patterns": (
        "executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils"
        ":_get_aten_graph_module_for_pattern",
    ),
    "passes.pattern_filter": (
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
        f"{_XNNPACK}.convert_to_upsample_bilinear2d:ConvertToUpsampleBilinear2d.call",
        "executorch.backends.xnnpack.partition.graphs.sdpa:get_graphs",
        "executorch.backends.xnnpack.partition.graphs.bilinear_2d:_get_bilinear_2d_graphs",
    ),
    "unread_text": (
        "executorch.exir.backend.backend_api:_create_partitions_in_graph_module",
        f"{_XNNPACK}.convert_to_linear:ConvertToLinearPass.call",
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
    ),
}
"""By part: the functions that it replaces, as ``module:name``."""
