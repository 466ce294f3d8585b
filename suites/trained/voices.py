"""Silero's voice detector, and Resemblyzer's embedding of voices."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from harness import Inputs, Metric
from harness.numerics.metrics import task
from suites.trained import sounds
from suites.trained.build import trained
from suites.trained.packages import find_file, load_weights, pin

_FRAME, _CONTEXT = 512, 64  # samples of a decision, and of the frame before it
FRAMES = 12  # decisions of a call: 0.4 s


class Spectrum(nn.Module):
    """Frames of shape (frames, 576) to the magnitudes of their spectra, (frames, 129, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, stride=128, bias=False)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        parts = self.stft_conv(F.pad(frames, (0, _CONTEXT), "reflect").unsqueeze(1))
        return torch.sqrt(parts[:, :129] ** 2 + parts[:, 129:] ** 2)


class VoiceDetector(nn.Module):
    """Silero's detector, version 6, for 16 kHz: frames of shape (frames, 576) to probabilities.

    The convolutions treat the frames as a batch; the LSTM takes one after the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = Spectrum()
        self.conv1 = nn.Conv1d(129, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm = nn.LSTM(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv2(torch.relu(self.conv1(self.spectrum(frames)))))
        x = torch.relu(self.conv4(torch.relu(self.conv3(x)))).squeeze(-1)
        hidden, _ = self.lstm(x)
        voices = self.final_conv(torch.relu(hidden).unsqueeze(-1))
        return torch.sigmoid(voices).flatten()


def voice_detector() -> nn.Module:
    from safetensors.torch import load_file

    saved = load_file(find_file("silero_vad/data/silero_vad_16k.safetensors"))
    model = VoiceDetector()
    saved["spectrum.stft_conv.weight"] = saved.pop("stft_conv.weight")
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        saved[f"lstm.{part}_l0"] = saved.pop(f"lstm_cell.{part}")
    model.load_state_dict(saved)
    return model


def listen(samples: torch.Tensor) -> Inputs:
    """Return the first frames of a recording, each with the end of the frame before it."""
    padded = F.pad(samples, (_CONTEXT, FRAMES * _FRAME))[: _CONTEXT + FRAMES * _FRAME]
    return (padded.unfold(0, _CONTEXT + _FRAME, _FRAME).contiguous(),)


def speech_and_silence(sentence: int, voice: str, start: int = 3000) -> list[Inputs]:
    """Return a call of speech, and one of noise as faint as that of a quiet room."""
    spoken = sounds.speak(sounds.SENTENCES[sentence], voice)[start:]
    return [listen(spoken), listen(0.001 * torch.randn(FRAMES * _FRAME))]


def wrong_decisions(actual: Sequence[Sequence[torch.Tensor]], expected: Sequence) -> float:
    """Share of the frames in which the decision, at a probability of 0.5, is not the model's."""
    differ = [(a[0] > 0.5) != (e[0] > 0.5) for a, e in zip(actual, expected, strict=True)]
    return float(torch.cat(differ).double().mean())


class VoiceEncoder(nn.Module):
    """Resemblyzer's encoder: mel spectrograms of shape (voices, frames, 40) to unit vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(mel)
        raw = torch.relu(self.linear(hidden[-1]))
        return raw / torch.linalg.vector_norm(raw, dim=1, keepdim=True)


def voice_encoder() -> nn.Module:
    saved = load_weights("resemblyzer/pretrained.pt")["model_state"]
    model = VoiceEncoder()
    model.load_state_dict({name: saved[name] for name in model.state_dict()})
    return model


VOICES = ("en-us", "en-us+f2", "en-us+m7", "en-us+whisper")


def utterances(*sentences: int, start: int = 20, frames: int = 20) -> list[Inputs]:
    """Return a call for each sentence: 0.2 s of it by each of the voices."""
    return [
        (torch.cat([_compute_mel(sentence, voice, start, frames) for voice in VOICES]),)
        for sentence in sentences
    ]


def _compute_mel(sentence: int, voice: str, start: int, frames: int) -> torch.Tensor:
    spoken = sounds.speak(sounds.SENTENCES[sentence], voice)
    mel = sounds.compute_mel(spoken, bands=40, window=400, size=400, power=2.0)
    return mel[:, start : start + frames]


CASES = [
    trained(
        "silero_vad/speech",
        voice_detector,
        lambda: speech_and_silence(0, "en-us"),
        lambda: [
            *speech_and_silence(1, "en-us+f2"),
            *speech_and_silence(2, "en-us"),
            *speech_and_silence(3, "en-us+m7"),
        ],
        [Metric(wrong_decisions, degraded_above=0.0)],
        pin("silero-vad"),
        sounds.REQUIRED,
    ),
    trained(
        "resemblyzer/voices",
        voice_encoder,
        lambda: utterances(0, 1),
        lambda: utterances(2, 3, start=60),
        [Metric(task.cosine), Metric(task.rank, degraded_below=0.9)],
        pin("resemblyzer"),
        sounds.REQUIRED,
    ),
]
