"""Limitations of the MLX delegate."""

from __future__ import annotations

from harness import Limitation
from suites.overloads.limitations.tables import Row, make_limitations

_MLX = "https://github.com/pytorch/executorch/blob/v1.5.1/backends/mlx/ops.py"
_BOUND = "elements exceed the bound"
_AXES = (
    "ATen accepts dimensions 0 and -1 for a tensor of rank 0. The handler passes the dimension on "
    "to mlx, where such a tensor has none. Workaround: `x.reshape(1)` before it."
)
_UNBATCHED = (
    "ATen accepts inputs without a batch; the handler transposes them as if they had one. "
    "Workaround: `x.unsqueeze(0)`."
)
_UNREAD = (
    "The handler computes the first result alone. The program also returns the others, which "
    "nothing writes."
)
_RUNTIME = (
    "The operator runs outside the delegate, and its kernel refuses it; the cause is the one of "
    "XNNPACK's cell."
)

_ROWS: list[Row] = [
    ("all.dim any.dim argmax.default prod.dim_int", "run", "Invalid axis", _AXES),
    ("argsort.default cumsum.default sort.default", "run", "is out of bounds for array with 0",
     _AXES),
    ("_native_batch_norm_legit_no_training.default max_pool1d_with_indices.default", "run",
     "before anything writes it", _UNREAD),
    ("avg_pool1d.default conv1d.default conv2d.default/call_3 conv2d.default/call_5 "
     "linear.default max_pool1d.default", "run",
     "[transpose] Received", _UNBATCHED),
    ("max_pool2d_with_indices.default", "run", "expected equal lengths", _UNBATCHED),
    ("arange.default arange.start", "run", "for a tensor that the program fixes to",
     "_arange_handler takes integers of the start and end and drops their fractions, so that it "
     "makes an element less. Workaround: whole numbers."),
    ("arange.start_step", "run", "field step is 0",
     "_arange_start_step_handler takes an integer of the step, and 0.5 becomes 0."),
    ("constant_pad_nd.default constant_pad_nd.default/others pad.default pad.default/others", "run",
     "Padding sizes must be non-negative",
     "A negative padding crops, and _constant_pad_nd_handler passes it on to mlx, which refuses "
     "it. Workaround: slice the tensor."),
    ("copy.default copy_.default", "run", "has shape (4,), the program plans (3, 4)",
     "_copy_handler returns its source and does not broadcast it to the shape of self. "
     "Workaround: `src.expand_as(x)`."),
    ("fill.Tensor/others", "run", "has shape (), the program plans",
     "The handler returns the value and does not broadcast it. Workaround: `x.fill_(number)`."),
    ("logsumexp.default", "run", "more than the program plans for it",
     "An empty list of dimensions means all of them to ATen; mlx reduces none."),
    ("argmax.default/others", "run", "has shape (), the program plans",
     "_argmax_handler ignores keepdim where the dimension is None."),
    ("squeeze.dims squeeze_copy.dims", "run", "the program plans (1, 3, 1)",
     "ATen squeezes no dimension for an empty list; _squeeze_dims_handler passes it to mlx, where "
     "it stands for all."),
    ("index_select.default/others", "run", "the program plans (3, 1, 4)",
     "mlx's take drops the dimension where the index is a tensor of rank 0; ATen keeps it."),
    ("repeat_interleave.self_int", "run", "the program plans (24,)",
     "_repeat_interleave_handler takes dimension 0 where the dimension is None, and ATen flattens "
     "the tensor. Workaround: `x.flatten()` before it."),
    ("repeat_interleave.self_Tensor", "to_executorch", "Could not guard on data-dependent",
     "The number of repeats is unknown, and emission of the node that MLXPartitioner leaves to the "
     "runtime guards on it."),
    ("scatter_add.default", "run", "cannot be broadcast",
     "mlx's scatter_add_axis requires a source of the index's shape; ATen accepts a larger one. "
     "Workaround: slice the source."),
    ("select.int/others select_copy.int/others", "run", "take from an array with zero elements",
     "The handler makes a take of an empty tensor, which mlx refuses, and eager returns an empty "
     "tensor."),
    ("var.dim/others", "to_executorch", "0 in strides is not supported",
     "Emission refuses the strides of an empty tensor that stays outside the delegate."),
    ("cumsum.default/others", "compare", _BOUND,
     "_cumsum_handler ignores dtype: a float16 sum is rounded as float16 and not as the float32 "
     "that was asked for. Workaround: cast the input."),
    ("lt.Scalar/others mul.Scalar/others", "compare", _BOUND,
     "The number of a Scalar overload becomes a constant of the tensor's dtype: for an integer "
     "tensor 1.5 becomes 1, silently. Workaround: `x.float()`."),
    ("sort.default/others argsort.default/others topk.default/call_0", "compare", _BOUND,
     "_sort_handler and _argsort_handler ignore descending, and _topk_handler ignores largest: the "
     "order is silently wrong (docs/findings.md). Workaround: sort `-x`."),
    ("clamp.default/others", "compare", _BOUND,
     "_clamp_handler makes constants of the tensor's dtype of its bounds: for a bool tensor -0.5 "
     "becomes True, silently. Workaround: `x.float()`."),
    ("var_mean.default var_mean.correction", "compare", _BOUND,
     "The mean of a tensor of rank 0 is NaN: its decomposition and the handler divide by 0 "
     "elements without dimensions. Workaround: `x.reshape(1)` before it."),
    ("_conj_physical.default _conj_physical.default/others", "run", "Unhandled dtype", _RUNTIME),
    ("conv3d.default conv3d.padding convolution.default", "run", "failed with error 0x12",
     _RUNTIME),
    ("add.Scalar/others", "run", "failed with error 0x12", _RUNTIME),
    ("narrow_copy.default narrow_copy.default/others", "run", "Aborted", _RUNTIME),
]  # fmt: skip

MLX: list[Limitation] = make_limitations("mlx:fp32", _MLX, _ROWS)
