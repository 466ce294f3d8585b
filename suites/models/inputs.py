"""Realistic inputs of models: text with special tokens, speech-like sound, pictures.

All functions draw from torch's global generator, which :meth:`harness.Case.make` seeds.
"""

from __future__ import annotations

import math

import torch

PAD, BEGIN, END = 0, 1, 2
"""Special tokens; text tokens begin at 3."""
PLACE = 3
"""The placeholder token, which multimodal models replace by image or audio embeddings."""

RATE = 16_000  # samples a second
_HOP, _WINDOW = 160, 400  # samples, as in Whisper and NeMo


def tokens(length: int, vocabulary: int, batch: int = 1) -> torch.Tensor:
    """Token ids (batch, length): a begin token, then words, some of which are frequent."""
    words = torch.randint(3, vocabulary, (batch, length))
    frequent = torch.randint(3, vocabulary, (batch, 4))
    again = torch.rand(batch, length) < 0.5
    ids = torch.where(again, frequent.gather(1, torch.randint(0, 4, (batch, length))), words)
    ids[:, 0] = BEGIN
    return ids


def padded_tokens(
    length: int, vocabulary: int, lengths: tuple[int, ...]
) -> tuple[torch.Tensor, ...]:
    """Token ids and their mask, (batch, length) each: sentences of the given lengths, each with an
    end, then padding."""
    ids = tokens(length, vocabulary, len(lengths))
    mask = torch.arange(length)[None] < torch.tensor(lengths)[:, None]
    for row, count in enumerate(lengths):
        ids[row, count - 1] = END
    return ids.where(mask, PAD), mask.long()


def causal_mask(length: int, window: int = 0) -> torch.Tensor:
    """The additive causal mask (1, 1, length, length) that a runner gives.

    With ``window``, each position sees only the last ``window`` positions, itself included.
    """
    distance = torch.arange(length)[:, None] - torch.arange(length)[None]
    seen = (distance >= 0) & (distance < (window or length))
    return torch.zeros(length, length).masked_fill(~seen, torch.finfo(torch.float32).min)[
        None, None
    ]


def waveform(samples: int) -> torch.Tensor:
    """Speech-like sound (samples,) within ±1.

    It has voiced syllables with a gliding pitch and two formants, hisses between them, and silence
    at the end.
    """
    time = torch.arange(samples) / RATE
    pitch = 110 * (1 + 0.2 * torch.sin(2 * math.pi * (0.7 * time + torch.rand(1))))
    phase = 2 * math.pi * torch.cumsum(pitch / RATE, 0)
    low, high = 300 + 600 * torch.rand(1), 1200 + 1400 * torch.rand(1)
    voiced = torch.zeros(samples)
    for harmonic in range(1, 30):
        frequency = harmonic * 110
        peaks = torch.exp(-(((frequency - low) / 150) ** 2))
        peaks = peaks + 0.5 * torch.exp(-(((frequency - high) / 250) ** 2)) + 0.02
        voiced += peaks / harmonic**0.5 * torch.sin(harmonic * phase)
    syllables = torch.sin(2 * math.pi * (4 * time + torch.rand(1))).clamp(min=0)
    hiss = 0.1 * torch.randn(samples) * torch.sin(2 * math.pi * (4 * time + 0.5)).clamp(min=0) ** 4
    sound = voiced * syllables + hiss
    sound[samples * 7 // 8 :] = 0
    return 0.5 * sound / sound.abs().max() + 1e-4 * torch.randn(samples)


def mel(frames: int, bands: int) -> torch.Tensor:
    """Mel spectrogram (1, bands, frames) of :func:`waveform`, as Whisper normalizes it: logarithms
    clipped 80 dB below the loudest, then (x + 4) / 4."""
    sound = waveform((frames - 1) * _HOP)
    window = torch.hann_window(_WINDOW)
    spectrum = torch.stft(sound, _WINDOW, _HOP, window=window, return_complex=True).abs() ** 2
    logarithms = (_filters(bands, spectrum.shape[0]) @ spectrum).clamp(min=1e-10).log10()
    return ((logarithms.maximum(logarithms.max() - 8) + 4) / 4)[None]


def _filters(bands: int, bins: int) -> torch.Tensor:
    """Triangles (bands, bins) between equal steps on the mel scale, 2595 log10(1 + f / 700)."""
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = torch.linspace(0, RATE / 2, bins)[None]
    below, peak, above = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (frequencies - below) / (peak - below), (above - frequencies) / (above - peak)
    filters = torch.minimum(rising, falling).clamp(min=0)
    return filters / filters.sum(1, keepdim=True).clamp(min=1e-3)


def picture(height: int, width: int = 0) -> torch.Tensor:
    """A picture (1, 3, height, width) of 8 bits, normalized as ImageNet's.

    It has a smooth background, a saturated light, a dark box with sharp edges, and sensor noise.
    """
    width = width or height
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    turn, place = torch.rand(3) * 6, torch.rand(2) * 0.5 + 0.25
    ground = torch.stack([(x * 3 + turn[0]).sin(), (y * 5 + x + turn[1]).cos(), (x - y).sin()])
    scene = 0.3 * ground + 0.4
    scene += 1.2 * (-((x - place[0]) ** 2 + (y - place[1]) ** 2) * 60).exp()
    corner = int(height * place[1]) // 2, int(width * place[0]) // 2
    scene[:, corner[0] : corner[0] + height // 3, corner[1] : corner[1] + width // 4] = 0.05
    levels = ((scene + 0.01 * torch.randn_like(scene)).clamp(0, 1) * 255).round() / 255
    mean, deviation = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    return ((levels - mean[:, None, None]) / deviation[:, None, None])[None]
