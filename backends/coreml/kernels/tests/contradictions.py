"""Places where value inference of coremltools contradicts its own documentation.

Run as a script, it needs coremltools alone and prints each of them::

    python backends/coreml/kernels/tests/contradictions.py

coremltools folds constants by value inference, so a wrong value is a wrong program. The tests
require that coremltools still has each of these, and that the kernel has the documented value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

F, H, I32, U8 = numpy.float32, numpy.float16, numpy.int32, numpy.uint8
NAN, INF = numpy.nan, numpy.inf


class Contradiction(NamedTuple):
    """An operation on constants: what the documentation gives, and what coremltools does."""

    name: str
    opset: str
    inputs: dict[str, Any]
    documented: Any
    observed: Any
    reason: str


X = numpy.array([[1, 2], [3, 4]], F)
TABLE = numpy.arange(12, dtype=F).reshape(2, 2, 3)

CONTRADICTIONS = {
    "concat interleaved": Contradiction(
        "concat", "iOS15", {"values": (X, X + 10), "axis": 0, "interleave": True},
        [[1, 2], [11, 12], [3, 4], [13, 14]], [[1, 2], [3, 4], [11, 12], [13, 14]],
        "value_inference ignores interleave",
    ),
    "scatter_along_axis add": Contradiction(
        "scatter_along_axis", "iOS15",
        {"data": numpy.array([1, 2, 3], F), "indices": numpy.array([0, 0], I32),
         "updates": numpy.array([10, 20], F), "mode": "add"},
        [31, 2, 3], [20, 2, 3],
        "value_inference ignores mode: it always replaces",
    ),
    "scatter_along_axis default": Contradiction(
        "scatter_along_axis", "iOS15",
        {"data": numpy.array([1, 2, 3], F), "indices": numpy.array([0], I32),
         "updates": numpy.array([10], F)},
        [11, 2, 3], [10, 2, 3],
        "value_inference ignores mode, whose default is add",
    ),
    "clamped_relu below zero": Contradiction(
        "clamped_relu", "iOS15", {"x": numpy.array([2, -2], F), "alpha": F(1), "beta": F(-1)},
        [-1, -2], [-2, -3],
        "value_inference adds two branches, both limited by beta",
    ),
    "topk of all": Contradiction(
        "topk", "iOS17", {"x": numpy.array([0.5, 1, 3, 2], F), "k": -1, "return_indices": False},
        [3, 2, 1, 0.5], [3, 2, 1],
        "k = -1 means all elements; value_inference drops the last one, and the shape is -1",
    ),
    "topk of unsigned numbers": Contradiction(
        "topk", "iOS17", {"x": numpy.array([0, 1, 3, 2], U8), "k": 2, "return_indices": False},
        [3, 2], [0, 3],
        "value_inference sorts -x, which wraps",
    ),
    "argsort of the least integer": Contradiction(
        "argsort", "iOS15", {"x": numpy.array([-(2**31), 1, 3], I32)},
        [2, 1, 0], [0, 2, 1],
        "value_inference sorts -x, which wraps",
    ),
    "band_part beside infinity": Contradiction(
        "band_part", "iOS15",
        {"x": numpy.array([[1, INF], [INF, 2]], F), "lower": 0, "upper": 0},
        [[1, 0], [0, 2]], [[1, NAN], [NAN, 2]],
        "elements outside of the band are set to zero; value_inference multiplies with zero",
    ),
    "slice_by_size of nothing": Contradiction(
        "slice_by_size", "iOS15", {"x": numpy.arange(4, dtype=F), "begin": [1], "size": [0]},
        [], [1, 2, 3],
        "only a size of -1 means all that remain; the shape is (0,)",
    ),
    "slice_by_index of an axis of one": Contradiction(
        "slice_by_index", "iOS15", {"x": numpy.zeros((1, 2), F), "begin": [1, 0], "end": [5, 2]},
        numpy.zeros((0, 2)).tolist(), numpy.zeros((0, 2)).tolist(),
        "numpy's slice is empty, but the shape is (1, 2)",
    ),
    "softplus_parametric of 100": Contradiction(
        "softplus_parametric", "iOS15",
        {"x": F([100]).reshape(1, 1, 1), "alpha": numpy.ones(1, F), "beta": numpy.ones(1, F)},
        [[[100]]], [[[INF]]],
        "value_inference overflows in e^x",
    ),
    "reduce_log_sum_exp of zeros": Contradiction(
        "reduce_log_sum_exp", "iOS15", {"x": numpy.array([-INF, -INF], F)},
        -INF, NAN,
        "log(0 + 0) is -inf; value_inference subtracts infinities",
    ),
    "cumsum exclusive": Contradiction(
        "cumsum", "iOS15", {"x": X, "exclusive": True},
        [[0, 0], [1, 2]], TypeError,
        "value_inference passes the data as a dtype",
    ),
    "gather at a negative axis": Contradiction(
        "gather", "iOS16",
        {"x": TABLE, "indices": numpy.array([[0], [2]], I32), "axis": -1, "batch_dims": 1},
        [[[0], [3]], [[8], [11]]], IndexError,
        "value_inference subtracts batch_dims from the negative axis",
    ),
    "layer_norm over all axes": Contradiction(
        "layer_norm", "iOS15", {"x": numpy.array([-1, 1], F), "epsilon": F(0)},
        [-1, 1], ValueError,
        "axes are optional, but their default is a range, which the builder rejects",
    ),
    "flatten2d of a vector": Contradiction(
        "flatten2d", "iOS15", {"x": numpy.arange(3, dtype=F), "axis": -1},
        [[0, 1, 2]], TypeError,
        "the docstring's first example; the size of no axes is the float 1.0",
    ),
    "matmul of vectors": Contradiction(
        "matmul", "iOS15", {"x": numpy.ones(2, F), "y": numpy.ones(2, F)},
        2, IndexError,
        "the docstring's first rule; type_inference reads the second axis of y",
    ),
    "squeeze of longer axes": Contradiction(
        "squeeze", "iOS15", {"x": X, "axes": [0]},
        X.tolist(), ValueError,
        "squeeze ignores axes of other sizes; value_inference calls numpy.squeeze",
    ),
    "squeeze to rank 0": Contradiction(
        "squeeze", "iOS15", {"x": numpy.ones((1, 1), F)},
        1, ValueError,
        "value_inference takes x[0], which has an axis left",
    ),
    "slice_by_index to a number": Contradiction(
        "slice_by_index", "iOS15",
        {"x": numpy.arange(3, dtype=H), "begin": [1], "end": [0], "squeeze_mask": [True]},
        1, ValueError,
        "value_inference converts numbers of fp32 and int32 only",
    ),
    "select by a larger condition": Contradiction(
        "select", "iOS15",
        {"cond": numpy.array([[True], [False]]), "a": F([1, 2]), "b": F([3, 4])},
        [[1, 2], [3, 4]], [[1, 2], [3, 4]],
        "cond is broadcast with a and b, but type_inference ignores its shape: (2,)",
    ),
}  # fmt: skip


def observe(case: Contradiction) -> Any:
    """Return the value that coremltools infers, or the class of its error."""
    import coremltools
    from coremltools.converters.mil.mil import Builder, Function

    target = getattr(coremltools.target, case.opset)
    inputs = {k: v.copy() if isinstance(v, numpy.ndarray) else v for k, v in case.inputs.items()}
    try:
        with numpy.errstate(all="ignore"), Function({}, opset_version=target):
            return numpy.array(getattr(Builder, case.name)(**inputs).val).tolist()
    except (TypeError, ValueError, IndexError) as error:
        return type(error)


def observe_runtime_mask() -> Any:
    """Return what coremltools infers for an attention with a mask that it does not know.

    The value should be None: it depends on the mask. It is the attention without a mask.
    """
    import coremltools
    from coremltools.converters.mil.mil import Builder, Function

    x = numpy.arange(4, dtype=F).reshape(1, 2, 2)
    mask = Builder.placeholder(shape=(2, 2))
    with Function({"mask": mask}, opset_version=coremltools.target.iOS18) as function:
        result = Builder.scaled_dot_product_attention(
            query=x, key=x, value=x, attn_mask=function.inputs["mask"]
        )
    return None if result.val is None else result.val.tolist()


def observe_changed_constant() -> list[float]:
    """Return a constant after value inference of ``thresholded_relu``, which changes it.

    The constant was [1, 3].
    """
    import coremltools
    from coremltools.converters.mil.mil import Builder, Function

    x = numpy.array([1, 3], F)
    with Function({}, opset_version=coremltools.target.iOS15):
        constant = Builder.const(val=x)
        Builder.thresholded_relu(x=constant, alpha=F(2))
        return [float(value) for value in constant.val]


if __name__ == "__main__":
    for title, item in CONTRADICTIONS.items():
        print(f"{title}: {item.reason}")
        print(f"    documented {item.documented}, observed {observe(item)}")
    print("attention with a mask of the program's input: documented None (unknown)")
    print(f"    observed {observe_runtime_mask()}")
    print("thresholded_relu changes its constant [1, 3]")
    print(f"    observed {observe_changed_constant()}")
