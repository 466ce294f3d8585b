"""The functions that each part replaces."""

from __future__ import annotations

_EXPORTED = "torch.export.exported_program"
_FAKE = "torch._subclasses.fake_tensor"
_PASS = "executorch.exir.pass_base"
_PROXY = "torch.fx.experimental.proxy_tensor"
_TORCH_PASS = "torch._export.pass_base"
_ARM_VIEWS = "executorch.backends.transforms.propagate_view_copy_permute_pass"
_XNNPACK = "executorch.backends.xnnpack._passes"

REPLACED: dict[str, tuple[str, ...]] = {
    "calibration": (
        "torchao.quantization.pt2e.observer:HistogramObserver._non_linear_param_search",
    ),
    "graph_code": (
        "torch.fx.graph_module:GraphModule.recompile",
        "torch.fx.graph_module:GraphModule.__reduce__",
    ),
    "lazy_imports": (
        "torch.export._remove_auto_functionalized_pass:unsafe_remove_auto_functionalized_pass",
    ),
    "export.decompositions": (f"{_EXPORTED}:ExportedProgram.run_decompositions",),
    "export.edge_programs": ("executorch.exir.program._program:_generate_edge_program",),
    "delegates.partitions": (
        "executorch.exir.backend.canonical_partitioners.group_partitioner"
        ":GroupBasedPartitioner._can_merge_partitions",
    ),
    "delegates.payloads": (
        "executorch.backends.xnnpack.serialization.xnnpack_graph_serialize:convert_to_flatbuffer",
        "executorch.exir._serialize._dataclass:_DataclassEncoder.default",
        "executorch.exir._serialize._flatbuffer:_replace_non_finite_in_json",
        "executorch.exir._serialize._flatbuffer:_flatc_compile",
        "flatbuffers.builder:Builder.WriteVtable",
    ),
    "passes.delegate_calls": (
        "torch._higher_order_ops.executorch_call_delegate:call_delegate_cpu",
        "torch._higher_order_ops.executorch_call_delegate:trace_call_delegate",
        "torch._higher_order_ops.executorch_call_delegate:call_delegate_fake_tensor_mode",
    ),
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
    "inductor": (
        "torch._inductor.dtype_propagation:DtypePropagationOpsHandler.__init__",
        "torch._dynamo.utils:record_compilation_metrics",
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
        "torch._ops:OpOverload.decompose",
        f"{_PROXY}:maybe_handle_decomp",
    ),
    "passes.propagation": (
        f"{_ARM_VIEWS}:PropagateViewCopyPermutePass._retrace",
        f"{_ARM_VIEWS}:PropagateViewCopyPermutePass.call",
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
    "export.traces": (
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
    "unread_text": (
        "executorch.exir.backend.backend_api:_create_partitions_in_graph_module",
        f"{_XNNPACK}.convert_to_linear:ConvertToLinearPass.call",
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
    ),
    "passes.pattern_filter": (
        f"{_XNNPACK}.convert_to_sdpa:ConvertToSDPAPass.call",
        f"{_XNNPACK}.convert_to_upsample_bilinear2d:ConvertToUpsampleBilinear2d.call",
        "executorch.backends.xnnpack.partition.graphs.sdpa:get_graphs",
        "executorch.backends.xnnpack.partition.graphs.bilinear_2d:_get_bilinear_2d_graphs",
    ),
    "passes.verification": (
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
"""By part: the functions that it replaces, as ``module:name``."""
