"""Settings of Arm's quantizer that a target can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness.backend_api import Recipe, Setting, make_quantizer_setting

# Each of these functions is copied into scripts.


def quantize_inputs_and_outputs(quantizer: Any) -> Any:
    """Give the program's inputs and outputs other codes than the values between: -127 to 127."""
    config = quantizer.global_config
    specs = {
        name: dataclasses.replace(getattr(config, name), quant_min=-127)
        for name in ("input_activation", "output_activation")
    }
    return quantizer.set_io(dataclasses.replace(config, **specs))


def use_one_weight_scale(quantizer: Any) -> Any:
    """Use one scale for each weight, as is_per_channel=False."""
    import torch
    from torchao.quantization.pt2e import MinMaxObserver

    config = quantizer.global_config
    weight = dataclasses.replace(
        config.weight,
        qscheme=torch.per_tensor_symmetric,
        ch_axis=None,
        observer_or_fake_quant_ctr=MinMaxObserver,
    )
    return quantizer.set_global(dataclasses.replace(config, weight=weight))


def quantize_for_training(quantizer: Any) -> Any:
    """Quantize with the configuration for training."""
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config

    return quantizer.set_global(get_symmetric_quantization_config(is_qat=True))


def _find_other_codes(recipe: Recipe) -> str | None:
    return None if recipe.name.startswith("int") and recipe.name != "int16" else "it is not int8"


SETTINGS: Mapping[str, Setting] = {
    "io": make_quantizer_setting(
        "uses the codes -127 to 127 for inputs and outputs only (set_io)",
        quantize_inputs_and_outputs,
    ),
    "one_weight_scale": make_quantizer_setting(
        "uses one scale for each weight (is_per_channel=False)", use_one_weight_scale
    ),
    "qat": make_quantizer_setting(
        "prepares for quantization-aware training (prepare_qat_pt2e), without training",
        quantize_for_training,
        _find_other_codes,
        qat=True,
    ),
}
