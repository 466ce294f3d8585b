"""The definitions that each part relies on without replacing them.

A part that skips a walk assumes what the walk does; a part with a shorter algorithm repeats the
vendor's rules. If these change, programs may differ. Functions that a part calls for any result are
not listed.
"""

from __future__ import annotations

_ARM = "executorch.backends.arm"
_EXIR = "executorch.exir"
_EXPORTED = "torch.export.exported_program"
_FAKE = "torch._subclasses.fake_tensor"
_PASS = f"{_EXIR}.pass_base"
_PROXY = "torch.fx.experimental.proxy_tensor"
_UTILS = "torch._export.utils"
_XNNPACK = "executorch.backends.xnnpack"

# A walk: the methods that it calls, and its result for a pass without hooks.
_WALK = (
    f"{_PASS}:_ExportPassBase",
    f"{_PASS}:ExportPass",
    f"{_PASS}:NodeMetadata",
    f"{_PASS}:ProxyValue",
)
# Operators that a trace decomposes or keeps.
_DECOMPOSITION = (
    f"{_EXPORTED}:_decompose_exported_program",
    f"{_EXPORTED}:_decompose_and_get_gm_with_new_signature_constants",
    f"{_PROXY}:proxy_call",
    f"{_PROXY}:decompose",
    "torch._subclasses.functional_tensor:FunctionalTensorMode.__torch_dispatch__",
)
# Contents of a program, for copies.
_PROGRAM = (
    f"{_EXPORTED}:ExportedProgram.__init__",
    f"{_EXPORTED}:ModuleCallSignature",
    f"{_EXPORTED}:ModuleCallEntry",
    "torch.export.graph_signature:InputSpec",
    "torch.export.graph_signature:OutputSpec",
    "torch.fx.graph:Graph.__deepcopy__",
    "torch.fx.graph:Graph.graph_copy",
    "torch.fx.graph:Graph.node_copy",
    "torch.fx.traceback:NodeSource",
)
# The set of composite operators, and their decomposition.
_COMPOSITES = (
    f"{_UTILS}:_is_cia_op",
    f"{_UTILS}:_is_preservable_cia_op",
    f"{_UTILS}:_check_valid_to_preserve",
    f"{_UTILS}:_collect_all_valid_cia_ops_for_aten_namespace",
)

ASSUMED: dict[str, tuple[str, ...]] = {
    "calibration": (
        # The search calls it with bins, and stops by its result.
        "torchao.quantization.pt2e.observer:HistogramObserver._compute_quantization_error",
    ),
    "graph_code": (
        # Code that reads or sets the code of a graph module.
        "torch.fx.graph_module:GraphModule",
        "torch.fx.graph_module:_WrappedCall",
        "torch.fx.graph_module:reduce_graph_module",
        "torch.fx._lazy_graph_module:_LazyGraphModule",
    ),
    "memoized": (
        *_COMPOSITES,
        f"{_UTILS}:_special_op_to_preserve_cia",
        # Caches that are exchanged.
        "torch._ops:OperatorBase.__init__",
        "torch._ops:OperatorBase.py_impl",
        "torch._ops:OpOverload._get_dispatch",
        "torch._subclasses.fake_impls:register_op_impl",
        # Lookups of an operator during a trace.
        *_DECOMPOSITION,
        "torch.fx.traceback:NodeSource",
        "torch._decomp.decompositions_for_rng:PhiloxState",
        f"{_EXIR}._serialize._dataclass:_DataclassEncoder",
    ),
    "export.decomposition_tables": (
        *_COMPOSITES,
        f"{_UTILS}:_is_aten_op",
        "torch.export.decomp_utils:CustomDecompTable",
        "torch._decomp:core_aten_decompositions",
        "torch._decomp:_core_aten_decompositions_post_autograd",
        "torch._decomp:_add_op_to_registry",
    ),
    "export.decompositions": (
        *_DECOMPOSITION,
        *_PROGRAM,
        *_COMPOSITES,
        f"{_EXPORTED}:ExportedProgram._validate",
        f"{_PROXY}:set_original_aten_op",
        f"{_PROXY}:PythonKeyTracer.create_node",
        "torch.export.decomp_utils:CustomDecompTable",
    ),
    "passes.fake_results": (
        # Conditions, keys and results of the mode's own cache.
        f"{_FAKE}:FakeTensorMode.__torch_dispatch__",
        f"{_FAKE}:FakeTensorMode._cached_dispatch_impl",
        f"{_FAKE}:FakeTensorMode._cache_key",
        f"{_FAKE}:FakeTensorMode._validate_cache_key",
        f"{_FAKE}:FakeTensorMode._prep_args_for_hash",
        f"{_FAKE}:FakeTensorMode._validate_output_for_cache_entry",
        f"{_FAKE}:FakeTensorMode._get_output_tensor_from_cache_entry",
        f"{_FAKE}:FakeTensorMode._dispatch_impl",
        f"{_FAKE}:TensorMetadata",
        f"{_FAKE}:extract_tensor_metadata",
        f"{_FAKE}:FakeTensor",
        f"{_FAKE}:FakeTensorConfig",
        "torch.fx.experimental.symbolic_shapes:ShapeEnvSettings",
        "torch.fx.interpreter:Interpreter.run_node",
        f"{_ARM}.tosa.specification:TosaLoweringContext",
        f"{_ARM}.tosa.specification:TosaSpecification",
    ),
    "eviction": (
        f"{_EXIR}.backend.utils:is_same_node",
        f"{_EXIR}.backend.utils:WhyNoPartition",
        f"{_FAKE}:FakeTensorMode._cached_dispatch_impl",
        f"{_FAKE}:FakeTensorMode._cache_key",
        f"{_FAKE}:_DispatchCacheKey",
    ),
    "passes.argument_trees": (
        *_WALK,
        "torch.fx.proxy:_create_arg_bypass",
        "torch.fx.proxy:_create_arg_dict",
        "torch.fx.proxy:TracerBase.create_arg",
        "torch.fx._symbolic_trace:Tracer.create_arg",
        "torch.fx.interpreter:Interpreter.run_node",
        "torch.utils._pytree:tree_map",
        "torch.utils._pytree:tree_map_only",
        "torch.utils._pytree:tree_iter",
        "torch.utils._pytree:map_only",
        "torch.utils._pytree:tree_flatten",
        "torch.utils._pytree:tree_unflatten",
        "torch.utils._pytree:_get_node_type",
        "torch.utils._pytree:_is_leaf",
        "torch.utils._pytree:_tuple_flatten",
        "torch.utils._pytree:_list_flatten",
        "torch.utils._pytree:_dict_flatten",
    ),
    "passes.skipped_walks": (
        *_WALK,
        f"{_PASS}:map_args",
        "torch._export.pass_base:_ExportPassBaseDeprecatedDoNotUse",
        "torch.fx.passes.infra.pass_base:PassBase",
        # The nodes on which a pass acts.
        f"{_EXIR}.passes.legalize_portable_dim_order_pass:LegalizePortableDimOrderPass",
        f"{_EXIR}.passes.normalize_transpose_pass:NormalizeTransposePass",
        f"{_EXIR}.passes.remove_mixed_type_operators:RemoveMixedTypeOperators",
        f"{_EXIR}.passes.replace_broken_ops_with_function_ops_pass"
        ":ReplaceBrokenOpsWithFunctionalOpsPass",
        f"{_EXIR}.passes.scalar_to_tensor_pass:ScalarToTensorPass",
        f"{_EXIR}.passes.sym_to_tensor_pass:SymToTensorPass",
        f"{_EXIR}.passes.const_prop_pass:ConstPropPass",
        f"{_EXIR}.passes.memory_format_ops_pass:DimOrderOpsRevertPass",
        f"{_EXIR}.passes.memory_format_ops_pass:MemoryFormatOpsPass",
        f"{_EXIR}.passes.dim_order_ops_registry",
        # Arm's passes, for the dry run.
        f"{_ARM}._passes.arm_pass:ArmPass",
    ),
    "patterns": (
        # Inputs of a pattern besides code, closure and shapes.
        f"{_XNNPACK}.quantizer.xnnpack_quantizer_utils:_do_annotate_conv_bn",
    ),
    "passes.pattern_filter": (
        f"{_PASS}:ExportPass",
        f"{_XNNPACK}._passes.convert_to_sdpa:ConvertToSDPAPass",
        f"{_XNNPACK}._passes.convert_to_upsample_bilinear2d:ConvertToUpsampleBilinear2d",
        f"{_XNNPACK}._passes.xnnpack_pass:XNNPACKPass",
    ),
    "unread_text": (
        # They read names of functions and files from the stack, or one line of it.
        f"{_XNNPACK}.partition.xnnpack_partitioner"
        ":XnnpackPartitioner._check_if_called_from_to_backend",
        "executorch.backends.mlx.partitioner:MLXPartitioner._is_to_edge_transform_and_lower",
        "torch.testing._internal.common_utils:extract_test_fn",
        f"{_ARM}._passes.arm_pass:ArmPass.call_operator",
        f"{_ARM}._passes.arm_pass_utils:create_node",
        f"{_ARM}._passes.arm_pass_utils:create_shape_node",
        "torch.fx.interpreter:Interpreter.run",
        "torch.fx.graph_module:GraphModule.__str__",
        "torch.fx.graph_module:GraphModule.print_readable",
    ),
}
"""By part: ``module:name`` of functions, classes or variables, or ``module``."""
