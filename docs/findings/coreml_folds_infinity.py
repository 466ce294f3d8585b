"""coremltools folds constants to NaN or infinity where the result is another number."""

import numpy
import torch
from common import Observation, main
from coreml_package import Constants, compare_folds, fold

INF = float("inf")


def soften(self: Constants, x: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.softplus(self.c, beta=2.0)


def observe() -> Observation:
    one = numpy.ones(1, numpy.float32)
    rows = torch.tensor([[-INF, -INF], [INF, 0.0]])
    matrix = torch.tensor([[1.0, INF], [INF, 2.0]])
    hundred = torch.full((1, 1, 1, 1), 100.0)
    summed = Constants(lambda self, x: x + torch.logsumexp(self.c, 1), c=rows)
    traced = Constants(lambda self, x: x + torch.trace(self.c), c=matrix)
    return compare_folds(
        {
            "reduce_log_sum_exp": (
                [-INF, INF],
                fold("reduce_log_sum_exp", x=rows.numpy(), axes=[1]),
            ),
            "softplus_parametric": (
                [[[[100]]]],
                fold("softplus_parametric", x=hundred.numpy(), alpha=one, beta=one),
            ),
            "band_part": (
                [[1, 0], [0, 2]],
                fold("band_part", x=matrix.numpy(), lower=0, upper=0),
            ),
        },
        {
            "program with logsumexp": (summed, torch.zeros(2)),
            "program with softplus": (Constants(soften, c=hundred), torch.zeros(1, 1, 1, 1)),
            "program with trace": (traced, torch.zeros(1)),
        },
    )


if __name__ == "__main__":
    main(observe)
