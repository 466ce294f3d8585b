"""Programs of a few nodes keep the strides of a program's inputs: a defect may depend on them."""

from __future__ import annotations

import torch

from harness import Case, Target
from harness.tracing.reduce import reduce


def test_a_failure_by_strides_is_reduced_to_the_node_that_takes_the_input() -> None:
    image = torch.randint(0, 255, (4, 5, 3), dtype=torch.uint8)
    picture = image.permute(2, 0, 1).float()[None]
    layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(3, 2, 1), torch.nn.Sigmoid())
    case = Case.from_module("strides/picture", layers, (picture,))
    found = reduce(case, Target.parse("portable:fp32"), 0)
    assert (found.nodes, found.total) == (("relu",), 3)
    (inputs,) = found.case.make().calls
    assert inputs[0].stride() == (3, 1, 15, 3)
