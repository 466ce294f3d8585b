"""Image models: transformers over patches, convolutional networks, detection, segmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim

from harness import Case
from suites.models.build import DYNAMIC, EVERY, FLOAT, PICTURES, Field, Make, model
from suites.models.inputs import PAD, PLACE, picture
from suites.models.language import SIZES as LANGUAGE
from suites.models.weights import init_weights

LABELS = 16
_QUERIES = 128**0.5  # gives the elements of a learned query the size 1
SIDE = 64  # pixels
SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "image_size": SIDE,
    "num_labels": LABELS,
}


def make_pictures(side: int) -> torch.Tensor:
    """Pictures (8, 3, side, side), from which batch norms take their statistics."""
    return torch.cat([picture(side) for _ in range(8)])


def deit(**sizes: Any) -> torch.nn.Module:
    """DeiT: a distillation token beside the class token."""
    from transformers import DeiTConfig, DeiTForImageClassification

    return Field(
        init_weights(DeiTForImageClassification(DeiTConfig(**{**SIZES, **sizes}))), "logits"
    )


def vit(**sizes: Any) -> torch.nn.Module:
    """The vision transformer."""
    from transformers import ViTConfig, ViTForImageClassification

    return Field(init_weights(ViTForImageClassification(ViTConfig(**{**SIZES, **sizes}))), "logits")


def dinov2(**sizes: Any) -> torch.nn.Module:
    """DINOv2: patches of 14, each sublayer scaled by channel."""
    from transformers import Dinov2Config, Dinov2Model

    own = {**SIZES, "image_size": 56, "mlp_ratio": 2}
    own.pop("intermediate_size")
    return Field(init_weights(Dinov2Model(Dinov2Config(**{**own, **sizes}))), "last_hidden_state")


def siglip(**sizes: Any) -> torch.nn.Module:
    """SigLIP's tower: tanh-gelu, and a head that attends to all patches."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    own = {**SIZES, "patch_size": 16}
    own.pop("num_labels")
    return Field(
        init_weights(SiglipVisionModel(SiglipVisionConfig(**{**own, **sizes}))), "pooler_output"
    )


def smolvlm(**sizes: Any) -> Any:
    """SmolVLM: SigLIP's tower, a connector that makes one of four patches, Llama."""
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

    vision_sizes = {**SIZES, "num_hidden_layers": 1, "patch_size": 16}
    vision_sizes.pop("num_labels")
    text = {**LANGUAGE, "model_type": "llama", "num_hidden_layers": 1, **sizes}
    config = SmolVLMConfig(
        vision_config=vision_sizes, text_config=text, image_token_id=PLACE, pad_token_id=PAD
    )
    return init_weights(SmolVLMForConditionalGeneration(config))


def make_vlm_part(part: str) -> torch.nn.Module:
    """Make one of the parts that ``TorchExportableModuleForVLM`` exports of a model."""
    from transformers.integrations.executorch import TorchExportableModuleForVLM

    found: torch.nn.Module = getattr(TorchExportableModuleForVLM(smolvlm()), part)
    return found


def mobilenet_v2(**sizes: Any) -> torch.nn.Module:
    """MobileNetV2, a quarter as wide: inverted residuals, depthwise kernels of 3 by 3, relu6."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    own = {"depth_multiplier": 0.25, "image_size": SIDE, "num_labels": LABELS}
    made = MobileNetV2ForImageClassification(MobileNetV2Config(**{**own, **sizes}))
    return Field(init_weights(made, make_pictures(made.config.image_size)), "logits")


def resnet(**sizes: Any) -> torch.nn.Module:
    """ResNet: a kernel of 7 by 7 and stride 2, pooling, residual blocks."""
    from transformers import ResNetConfig, ResNetForImageClassification

    own = {
        "embedding_size": 32,
        "hidden_sizes": [32, 64],
        "depths": [1, 2],
        "layer_type": "basic",
        "num_labels": LABELS,
    }
    made = ResNetForImageClassification(ResNetConfig(**{**own, **sizes}))
    return Field(init_weights(made, make_pictures(SIDE)), "logits")


def efficientnet(**sizes: Any) -> torch.nn.Module:
    """EfficientNet, a quarter as wide: squeeze and excitation, kernels of 3 and 5, swish."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    own = {
        "image_size": SIDE,
        "width_coefficient": 0.25,
        "depth_coefficient": 0.3,
        "hidden_dim": 320,
        "num_labels": LABELS,
    }
    made = EfficientNetForImageClassification(EfficientNetConfig(**{**own, **sizes}))
    return Field(init_weights(made, make_pictures(made.config.image_size)), "logits")


class Detections(torch.nn.Module):
    """A detector's class logits (N, queries, classes) and boxes (N, queries, 4)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.model(pixels)
        return found.logits, found.pred_boxes


def rf_detr(**sizes: Any) -> torch.nn.Module:
    """RF-DETR: DINOv2 with windowed attention, a projector, deformable attention of queries."""
    from transformers import RfDetrConfig, RfDetrForObjectDetection

    backbone = {
        "model_type": "rf_detr_dinov2",
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "mlp_ratio": 2,
        "image_size": 112,
        "num_windows": 2,
        "out_indices": [2],
    }
    own = {
        "backbone_config": backbone,
        "d_model": 128,
        "decoder_layers": 1,
        "num_queries": 16,
        "decoder_ffn_dim": 128,
        "c2f_num_blocks": 1,
        "decoder_self_attention_heads": 2,
        "decoder_cross_attention_heads": 2,
        "num_labels": 8,
        "group_detr": 1,
    }
    made = init_weights(
        RfDetrForObjectDetection(RfDetrConfig(**{**own, **sizes})),
        make_pictures(112),
        embedding=_QUERIES,
    )
    with torch.no_grad():  # trained weights change a box little, whose size is an exponential
        for name, weight in made.named_parameters():
            if "bbox_embed" in name and ".layers.2." in name:
                weight *= 0.1
            elif "reference_point_embed" in name:
                weight *= 0.1 / _QUERIES
    return Detections(made)


def rt_detr(**sizes: Any) -> torch.nn.Module:
    """RT-DETR: a residual network, a hybrid encoder over three scales, deformable attention."""
    from transformers import RTDetrConfig, RTDetrForObjectDetection

    backbone = {
        "model_type": "rt_detr_resnet",
        "embedding_size": 32,
        "hidden_sizes": [32, 64, 64, 128],
        "depths": [1, 1, 1, 1],
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    }
    own = {
        "backbone_config": backbone,
        "encoder_in_channels": [64, 64, 128],
        "encoder_hidden_dim": 128,
        "encoder_ffn_dim": 128,
        "encoder_attention_heads": 2,
        "d_model": 128,
        "num_queries": 16,
        "decoder_in_channels": [128, 128, 128],
        "decoder_ffn_dim": 128,
        "decoder_attention_heads": 2,
        "decoder_layers": 1,
        "num_labels": 8,
        "num_denoising": 0,
    }
    made = RTDetrForObjectDetection(RTDetrConfig(**{**own, **sizes}))
    return Detections(init_weights(made, make_pictures(SIDE), embedding=_QUERIES))


def sam2(**sizes: Any) -> torch.nn.Module:
    """SAM 2's image encoder: windows of several sizes, pooled queries, a feature pyramid."""
    from transformers import Sam2HieraDetConfig, Sam2VisionConfig
    from transformers.models.sam2.modeling_sam2 import Sam2VisionModel

    own = {
        "hidden_size": 64,
        "num_attention_heads": 1,
        "image_size": [SIDE, SIDE],
        "blocks_per_stage": [1, 1, 2, 1],
        "embed_dim_per_stage": [64, 128, 256, 512],
        "num_attention_heads_per_stage": [1, 2, 4, 8],
        "window_size_per_stage": [8, 4, 4, 2],
        "global_attention_blocks": [3],
        "window_positional_embedding_background_size": [4, 4],
    }
    config = Sam2VisionConfig(
        backbone_config=Sam2HieraDetConfig(**{**own, **sizes}).to_dict(),
        backbone_channel_list=[512, 256, 128, 64],
        backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
        fpn_hidden_size=64,
    )
    return Field(init_weights(Sam2VisionModel(config)), "fpn_hidden_states")


def pictures(height: int, width: int = 0) -> Make:
    """Make a picture (1, 3, height, width)."""
    return lambda: (picture(height, width),)


_TWO = (pictures(SIDE), pictures(SIDE))
# int8_dynamic suits transformers: after fifty convolutions hardly any signal is left (3 dB in
# MobileNetV2).
_RESNET = "|".join(part for part in EVERY.split("|") if part != "xnnpack:int8_dynamic")
# On the other targets DINOv2 covers the vision transformers.
_FEW = "xnnpack:fp32|metal:fp32"
# The last bit decides which queries of a picture are the best, and all outputs depend on them: with
# coarse rounding two correct programs have nothing in common. (XNNPACK's quantizer fails.)
DETECTORS = f"{FLOAT}|xnnpack:int8"


def dynamic_pictures(
    name: str, make: Callable[[], torch.nn.Module], step: int = 32, targets: str = DYNAMIC
) -> Case:
    """Make a case of pictures of any size: one between the bounds, then the bounds.

    Args:
        name: ``architecture/variant``.
        make: makes the module.
        step: divisor of the sides: the stride of the whole network.
        targets: globs over the targets.
    """
    sizes = [pictures(2 * step, 3 * step), pictures(2 * step), pictures(4 * step)]
    sides = {at: step * Dim(side, min=2, max=4) for at, side in ((2, "height"), (3, "width"))}
    return model(name, make, *sizes, dynamic=(sides,), targets=targets)


def interpolate_positions(transformer: torch.nn.Module) -> torch.nn.Module:
    """Make a transformer interpolate its position embeddings to the size of the picture."""
    assert isinstance(transformer, Field)
    return Field(transformer.model, transformer.field, interpolate_pos_encoding=True)


CASES: list[Case] = [
    model("deit/tiny", deit, *_TWO, targets=EVERY),
    model("vit/tiny", vit, *_TWO, targets=PICTURES),
    model("dinov2/tiny", dinov2, pictures(56), pictures(56), targets=PICTURES),
    model("siglip/tiny", siglip, *_TWO),
    model(
        "smolvlm/vision",
        lambda: Field(make_vlm_part("vision_encoder"), "last_hidden_state"),
        *_TWO,
        targets=FLOAT,
    ),
    model(
        "smolvlm/connector",
        lambda: make_vlm_part("connector"),
        *(lambda: (torch.randn(1, 16, 128),),) * 2,
    ),
    # In bfloat16 no signal passes its fifty convolutions. In XNNPACK's int8 so little passes that
    # the first rounding decides the rest: 3 of 20 pictures exceeded the bound, by up to 1.42.
    model(
        "mobilenet_v2/tiny",
        mobilenet_v2,
        *_TWO,
        targets=f"{FLOAT}|tosa:int|tosa:mxfp8_e4m3|mlx:int4",
    ),
    model(
        "resnet/tiny",
        resnet,
        *_TWO,
        plain_targets="portable:fp32|xnnpack:fp32|mlx:fp32|metal:fp32|tosa:fp",
        targets=_RESNET,
    ),
    model("efficientnet/tiny", efficientnet, *_TWO, targets=PICTURES),
    model("rf_detr/tiny", rf_detr, pictures(112), pictures(112), targets=DETECTORS),
    # Arm's TOSA takes a minute and a half and runs nightly (night.py).
    model("sam2/tiny", sam2, *_TWO, targets=f"{DYNAMIC}|xnnpack:int8|mlx:int4"),
    dynamic_pictures("resnet/dynamic", resnet),
    dynamic_pictures("dinov2/dynamic", dinov2, 28),
    dynamic_pictures("vit/dynamic", lambda: interpolate_positions(vit()), 32, _FEW),
    dynamic_pictures("deit/dynamic", lambda: interpolate_positions(deit()), 32, _FEW),
]
