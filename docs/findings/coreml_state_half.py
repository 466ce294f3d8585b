"""coremltools turns a float32 buffer into a float16 state, also with compute_precision FLOAT32."""

import torch
from common import Observation, main
from coreml_package import convert


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def observe() -> Observation:
    _, specification = convert(Counter(), (torch.ones(4),))
    (state,) = specification.description.state
    array = state.type.stateType.arrayType
    names = array.DESCRIPTOR.enum_types_by_name["ArrayDataType"].values_by_number
    return Observation(
        "a state of FLOAT32",
        f"a state of {names[array.dataType].name}",
        wrong=array.dataType != 65568,
    )


if __name__ == "__main__":
    main(observe)
