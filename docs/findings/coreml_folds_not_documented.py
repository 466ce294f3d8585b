"""coremltools folds further operations to other values or shapes than their documentation has."""

import numpy
from common import Observation, main
from coreml_package import Builder, Function, compare_folds, coremltools, fold


def infer_shape(kind: str, **inputs: object) -> list[int]:
    """Return the shape that coremltools declares for an operation."""
    with Function({}, opset_version=coremltools.target.iOS18):
        return list(getattr(Builder, kind)(**inputs).shape)


def observe() -> Observation:
    number, numbers = numpy.float32, numpy.array([0.5, 1, 3, 2], numpy.float32)
    rows = numpy.zeros((1, 2), number)
    pair = numpy.array([1, 2], number)
    return compare_folds(
        {
            "clamped_relu of 2, -2 (alpha 1, beta -1)": (
                [-1, -2],
                fold(
                    "clamped_relu",
                    x=numpy.array([2, -2], number),
                    alpha=number(1),
                    beta=number(-1),
                ),
            ),
            "topk of all (k = -1)": (
                [3, 2, 1, 0.5],
                fold("topk", x=numbers, k=-1, return_indices=False),
            ),
            "slice_by_size of size 0": (
                [],
                fold("slice_by_size", x=numbers, begin=[1], size=[0]),
            ),
            "shape of slice_by_index from 1 of an axis of 1": (
                [0, 2],
                infer_shape("slice_by_index", x=rows, begin=[1, 0], end=[5, 2]),
            ),
            "shape of select by a condition of (2, 1)": (
                [2, 2],
                infer_shape("select", cond=numpy.array([[True], [False]]), a=pair, b=pair),
            ),
        },
        {},
    )


if __name__ == "__main__":
    main(observe)
