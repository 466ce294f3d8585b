"""Published architectures with realistic inputs, for ``conform check``.

    conform check benchmarks/architectures.py:rf_detr --targets xnnpack:fp32 --trace

Weights are random but resemble trained ones: some channels are large, and norms differ from one.
Images are smooth, dark with a saturated light, or clipped; speech ends in silence. For results see
docs/findings.md.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

Built: TypeAlias = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class Output(torch.nn.Module):
    """Returns one tensor of a model's output record, the last where there are several."""

    def __init__(self, model: torch.nn.Module, field: str) -> None:
        super().__init__()
        self.model = model
        self.field = field

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute it."""
        found = getattr(self.model(x), self.field)
        result: torch.Tensor = found[-1] if isinstance(found, (tuple, list)) else found
        return result


class Projected(torch.nn.Module):
    """RF-DETR's backbone and the convolutions after it, which its decoder attends to."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.backbone = encoder.backbone
        self.projector = encoder.projector

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features (N, 256, H / 14, W / 14)."""
        features: torch.Tensor = self.projector(self.backbone(x).feature_maps)
        return features


def deit() -> Built:
    """DeiT-Tiny."""
    from transformers import DeiTConfig, DeiTForImageClassification

    config = DeiTConfig(
        hidden_size=192, intermediate_size=768, num_attention_heads=3, num_labels=1000
    )
    return Output(as_trained(DeiTForImageClassification(config)), "logits"), (images(224),)


def dinov2() -> Built:
    """DINOv2's small backbone."""
    from transformers import Dinov2Backbone, Dinov2Config

    config = Dinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=224, out_features=["stage12"]
    )
    return Output(as_trained(Dinov2Backbone(config)), "feature_maps"), (images(224),)


def rf_detr() -> Built:
    """RF-DETR: DINOv2 with windowed attention, and the projector."""
    from transformers import RfDetrConfig
    from transformers.models.rf_detr.modeling_rf_detr import RfDetrConvEncoder

    config = RfDetrConfig()
    config.backbone_config.image_size = 224
    return Projected(as_trained(RfDetrConvEncoder(config))), (images(224),)


def siglip() -> Built:
    """SigLIP's base vision tower, with the default random weights."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    return Output(SiglipVisionModel(SiglipVisionConfig()), "last_hidden_state"), (images(224)[:1],)


def parakeet() -> Built:
    """Parakeet's encoder: all of its 24 layers, 512 instead of 1,024 wide, on two seconds of
    speech.
    """
    from transformers import ParakeetEncoder, ParakeetEncoderConfig

    config = ParakeetEncoderConfig(hidden_size=512, intermediate_size=2048)
    return Output(as_trained(ParakeetEncoder(config)), "last_hidden_state"), (speech(200),)


def as_trained(model: torch.nn.Module) -> torch.nn.Module:
    """Give a model a few large channels, and scales of norms between 0.2 and 5."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1 and "norm" in name.lower() and name.endswith("weight"):
                parameter.mul_((torch.randn(parameter.shape, generator=generator) * 0.5).exp())
            elif parameter.ndim >= 2:
                parameter.mul_(2)
                rows = torch.randperm(len(parameter), generator=generator)
                parameter[rows[: max(1, len(parameter) // 64)]] *= 4
    return model


def images(size: int) -> torch.Tensor:
    """Three 8-bit images, (3, 3, size, size), normalized as for ImageNet."""
    generator = torch.Generator().manual_seed(0)
    y, x = torch.meshgrid(*[torch.linspace(0, 1, size)] * 2, indexing="ij")
    smooth = torch.stack([(x * 3).sin() / 2 + 0.5, (y * 5 + x).cos() / 2 + 0.5, x * y])
    light = (-((x - 0.7) ** 2 + (y - 0.3) ** 2) * 60).exp()
    clipped = smooth.clone()
    clipped[:, : size // 2] = 1
    clipped[:, size // 2 :, : size // 3] = 0
    scenes = torch.stack([smooth, smooth * 0.15 + light * 1.2, clipped])
    noise = 0.01 * torch.randn(scenes.shape, generator=generator)
    levels = ((scenes + noise).clamp(0, 1) * 255).round() / 255
    mean, deviation = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    return (levels - mean[:, None, None]) / deviation[:, None, None]


def speech(frames: int) -> torch.Tensor:
    """Logarithms of mel bands, (1, frames, 80), each band normalized; the end is silent."""
    generator = torch.Generator().manual_seed(3)
    time, band = torch.linspace(0, 12, frames)[:, None], torch.linspace(0, 4, 80)[None]
    logarithms = -8 + 6 * (time * 3).sin() * (band * 2 + time).cos()
    logarithms += torch.randn(frames, 80, generator=generator)
    logarithms[frames * 3 // 4 :] = -13.8
    centred = logarithms - logarithms.mean(0)
    return (centred / (logarithms.std(0) + 1e-5))[None]
