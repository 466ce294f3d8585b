"""Exir gives a picture of batch size 1 a dim order that no kernel accepts."""

import torch
from common import Observation, execute, lower, main
from executorch.exir._serialize._program import deserialize_pte_binary

# As pictures are usually loaded: rows, columns, channels of uint8; then permuted, with a batch of
# one.
PICTURE = torch.arange(4 * 5 * 3, dtype=torch.uint8).reshape(4, 5, 3)


def observe() -> Observation:
    x = PICTURE.permute(2, 0, 1).float()[None]
    program = bytes(lower(torch.nn.ReLU(), (x,)).to_executorch().buffer)
    plan = deserialize_pte_binary(program).program.execution_plan[0]
    print(f"shape {list(x.shape)}, strides {list(x.stride())}")
    print(
        f"dim order by torch {list(x.dim_order())}, in the program "
        f"{list(plan.values[plan.inputs[0]].val.dim_order)}"
    )
    try:
        observed = execute(program, (x,))[0]
    except RuntimeError as error:
        return Observation("relu of the picture", str(error), wrong=True)
    return Observation(
        "relu of the picture", "another result", wrong=not torch.equal(observed, torch.relu(x))
    )


if __name__ == "__main__":
    main(observe)
