"""The error of a layout-dependent failure names the input and whether a copy helps."""

from __future__ import annotations

import pytest
import torch

from harness import Status, check
from harness.model.case import make_call


def picture() -> torch.Tensor:
    """A picture as it is usually loaded, as a batch of one: rows, columns, channels."""
    image = torch.randint(0, 255, (4, 5, 3), dtype=torch.uint8)
    return image.permute(2, 0, 1).float()[None]


@pytest.mark.parametrize("target", ["portable:fp32", "xnnpack:fp32", "mlx:fp32", "metal:fp32"])
@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (picture, "shape [1, 3, 4, 5] and strides [3, 1, 15, 3] (channels last)"),
        (lambda: torch.randn(20, 8).T, "shape [8, 20] and strides [1, 8] (a transposed,"),
    ],
    ids=["picture", "transposed"],
)
def test_the_input_is_named_and_contiguous_is_tried(
    target: str, make: object, strides: str
) -> None:
    assert callable(make)
    (cell,) = check(torch.nn.ReLU(), (make(),), targets=[target])
    if cell.status is Status.UNAVAILABLE:
        pytest.skip(str(cell.error))
    assert cell.status in (Status.FAILED, Status.UNSUPPORTED)
    assert cell.error is not None
    assert f"not contiguous: input 0 has {strides}" in cell.error
    assert cell.error.endswith("with .contiguous() on it the cell passes")
    causes = [issue.cause for issue in cell.known_issues]
    is_picture = make is picture and cell.status is Status.FAILED
    assert any("pictures of batch size 1" in cause for cause in causes) is is_picture, causes


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return torch.sort(x * scale)[0]


def test_a_failure_of_another_cause_is_not_blamed_on_the_layout() -> None:
    """XNNPACK's runtime has no sort for any strides."""
    inputs = make_call((torch.randn(6, 4).T,), {"scale": torch.ones(4, 6)})
    (cell,) = check(Broken(), inputs, targets=["xnnpack:fp32"])
    assert cell.status is not Status.PASSED
    assert cell.error is not None
    assert "input 0 has shape [4, 6] and strides [1, 4]" in cell.error
    assert cell.error.endswith(f"on it the cell is {cell.status.value} as well")


def test_contiguous_inputs_are_not_mentioned() -> None:
    inputs = make_call((torch.randn(4, 6),), {"scale": torch.ones(4, 6)})
    (cell,) = check(Broken(), inputs, targets=["xnnpack:fp32"])
    assert cell.status is not Status.PASSED
    assert "contiguous" not in str(cell.error)
