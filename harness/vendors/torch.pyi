from torch import (
    _C as _C,
    _debug_has_internal_overlap as _debug_has_internal_overlap,
    _dynamo as _dynamo,
    _functorch as _functorch,
    _higher_order_ops as _higher_order_ops,
    _inductor as _inductor,
)
from torch._C import (
    DispatchKey as DispatchKey,
    _AutoDispatchBelowAutograd as _AutoDispatchBelowAutograd,
    _dispatch_get_all_op_names as _dispatch_get_all_op_names,
    _dispatch_has_kernel_for_dispatch_key as _dispatch_has_kernel_for_dispatch_key,
    _get_dispatch_mode as _get_dispatch_mode,
    _storage_Use_Count as _storage_Use_Count,
    _TorchDispatchModeKey as _TorchDispatchModeKey,
)
from torch._decomp import decomposition_table as decomposition_table
from torch._export.verifier import SpecViolationError as SpecViolationError
from torch._inductor.codecache import AotCodeCompiler as AotCodeCompiler
from torch._inductor.codegen.mps import (
    DTYPE_TO_METAL as DTYPE_TO_METAL,
    MetalKernel as MetalKernel,
)
from torch._inductor.decomposition import decompositions as decompositions
from torch._inductor.fx_passes import joint_graph as joint_graph, post_grad as post_grad
from torch._inductor.lowering import fallbacks as fallbacks, lowerings as lowerings
from torch._inductor.utils import ALIGN_BYTES as ALIGN_BYTES, get_gpu_type as get_gpu_type
from torch._library.custom_ops import _maybe_get_opdef as _maybe_get_opdef
from torch._ops import HigherOrderOperator as HigherOrderOperator, OpOverload as OpOverload
from torch._prims_common import (
    make_channels_last_strides_for as make_channels_last_strides_for,
    suggest_memory_format as suggest_memory_format,
)
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor, FakeTensorMode as FakeTensorMode
from torch.ao.quantization.fx import _decomposed as _decomposed
from torch.fx.graph import _PyTreeCodeGen as _PyTreeCodeGen
from torch.nn.modules.batchnorm import _BatchNorm as _BatchNorm
from torch.nn.modules.conv import _ConvNd as _ConvNd
from torch.testing._internal.common_methods_invocations import op_db as op_db
from torch.utils import _pytree as _pytree
from torch.utils._ordered_set import OrderedSet as OrderedSet
from torch.utils._python_dispatch import (
    TorchDispatchMode as TorchDispatchMode,
    _get_current_dispatch_mode_stack as _get_current_dispatch_mode_stack,
    _pop_mode as _pop_mode,
    is_traceable_wrapper_subclass as is_traceable_wrapper_subclass,
)
from torch.utils._pytree import (
    TreeSpec as TreeSpec,
    keystr as keystr,
    register_dataclass as register_dataclass,
    tree_flatten as tree_flatten,
    tree_flatten_with_path as tree_flatten_with_path,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_map_only as tree_map_only,
    tree_structure as tree_structure,
    tree_unflatten as tree_unflatten,
)
from torch.utils._sympy.numbers import int_oo as int_oo
from torch.utils._sympy.value_ranges import bound_sympy as bound_sympy
