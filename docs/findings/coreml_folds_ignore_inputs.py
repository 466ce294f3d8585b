"""coremltools folds constants without the mode of a scatter and the mask of an attention."""

import numpy
import torch
from common import Observation, main
from coreml_package import Constants, compare_folds, fold

X = numpy.array([[1, 2], [3, 4]], numpy.float32)
SCATTERED = {
    "data": numpy.array([1, 2, 3], numpy.float32),
    "indices": numpy.array([0, 0], numpy.int32),
    "updates": numpy.array([10, 20], numpy.float32),
}


def attend(self: Constants, mask: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(self.x, self.x, self.x, mask)


def observe() -> Observation:
    scatter = Constants(
        lambda self, x: x + torch.scatter_add(self.data, 0, self.indices, self.updates),
        data=torch.tensor([1.0, 2.0, 3.0]),
        indices=torch.tensor([0, 0]),
        updates=torch.tensor([10.0, 20.0]),
    )
    attention = Constants(attend, x=torch.arange(4.0).reshape(1, 1, 2, 2))
    return compare_folds(
        {
            "concat, interleave": (
                [[1, 2], [11, 12], [3, 4], [13, 14]],
                fold("concat", values=(X, X + 10), axis=0, interleave=True),
            ),
            "scatter_along_axis, add": (
                [31, 2, 3],
                fold("scatter_along_axis", **SCATTERED, mode="add"),
            ),
            "scatter_along_axis, the default (add)": (
                [31, 2, 3],
                fold("scatter_along_axis", **SCATTERED),
            ),
        },
        {
            "program with scatter_add": (scatter, torch.zeros(3)),
            "program with scaled_dot_product_attention": (
                attention,
                torch.tensor([[True, False], [False, True]]),
            ),
        },
    )


if __name__ == "__main__":
    main(observe)
