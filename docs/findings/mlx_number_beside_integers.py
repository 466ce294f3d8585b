"""MLX converts a number to an integer beside an integer tensor: x < 2.5 becomes x < 2."""

import torch
from common import CannotTry, Observation, main
from mlx_package import content, operators


class Less(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.lt(x, 2.5)


def observe() -> Observation:
    inputs = (torch.tensor([1, 2, 3], dtype=torch.int32),)
    lowered = content(Less(), inputs)
    print(f"in eager {inputs[0].tolist()} < 2.5 is {Less()(*inputs).tolist()}")
    print(f"lowered: {operators(lowered['instructions'])}")
    if len(lowered["constants"]) != 1:
        raise CannotTry(f"expected one constant: {lowered['constants']}")
    ((name, data),) = lowered["constants"].items()
    integer, fraction = (torch.frombuffer(bytearray(data), dtype=dtype) for dtype in BOTH)
    return Observation(
        f"a constant of float32, {torch.tensor(2.5).numpy().tobytes()!r}",
        f"{name} holds {data!r}: as int32 {integer.tolist()}, as float32 {fraction.tolist()}",
        wrong=integer.tolist() == [2],
    )


BOTH = (torch.int32, torch.float32)


if __name__ == "__main__":
    main(observe)
