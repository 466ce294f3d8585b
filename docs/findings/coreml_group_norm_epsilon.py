"""A pass of coremltools divides the product with a group norm's weight by sqrt(1 + 1e-5)."""

import torch
from common import Observation, main
from coreml_package import convert, find_operations


def observe() -> Observation:
    norm = torch.nn.GroupNorm(2, 4)
    torch.nn.init.normal_(norm.weight)
    function, _ = convert(norm, (torch.randn(1, 4, 5, 6),))
    found = [
        (operation.variance.val.tolist(), float(operation.epsilon.val))
        for operation in find_operations(function, "batch_norm")
    ]
    wrong = any(epsilon != 0 and set(variance) == {1.0} for variance, epsilon in found)
    return Observation("a product and a sum", f"batch_norm with variance, epsilon {found}", wrong)


if __name__ == "__main__":
    main(observe)
