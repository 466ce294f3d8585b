"""HistogramObserver clips before it compares: with 16 bits the error is far above a step."""

import torch
from common import Observation, main

# A million values and three large ones. The observer's first step leaves out 1e-5 of all: ten.
VALUES = torch.cat([torch.linspace(-1.0, 1.0, 1_000_000), torch.tensor([4.0, 4.0, 4.0])])


def observe() -> Observation:
    from torchao.quantization.pt2e import HistogramObserver, MinMaxObserver

    errors = []
    for observer in (MinMaxObserver, HistogramObserver):
        seen = observer(dtype=torch.int16, quant_min=-32767, quant_max=32767,
                        qscheme=torch.per_tensor_symmetric)  # fmt: skip
        seen(VALUES)
        scale, _ = seen.calculate_qparams()
        codes = (VALUES / scale).round().clamp(-32767, 32767)
        errors.append(float((codes * scale - VALUES).square().mean().sqrt()))
    return Observation(
        f"a root mean square error of at most {errors[0]:.2g}",
        f"{errors[1]:.2g}",
        wrong=errors[1] > 10 * errors[0],
    )


if __name__ == "__main__":
    main(observe)
