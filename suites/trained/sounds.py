"""Speech that espeak-ng synthesizes, tones, noise, and their mel spectrograms. All at 16 kHz."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from suites.trained.packages import pin

REQUIRED = pin("espeakng-loader")

RATE = 16000  # Hz

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "She had your dark suit in greasy wash water all year.",
    "A rainbow is a division of white light into many beautiful colors.",
    "Please call Stella, and ask her to bring these things from the store.",
)

_SYNTHESIZER = Path(__file__).with_name("synthesizer.py")


@functools.cache
def speak(text: str, voice: str = "en-us") -> torch.Tensor:
    """Synthesize a sentence.

    Args:
        text: the sentence.
        voice: a voice of espeak-ng, such as ``en-us+f2``.

    Returns:
        Samples from -1 to 1, float32 of shape (samples,).
    """
    import espeakng_loader
    from scipy.signal import resample_poly

    data = str(espeakng_loader.get_data_path()).removesuffix("/espeak-ng-data")
    made = subprocess.run(
        [sys.executable, _SYNTHESIZER, espeakng_loader.get_library_path(), data, voice, text],
        check=True,
        stdout=subprocess.PIPE,
    )
    rate, _, samples = made.stdout.partition(b"\n")
    numbers = np.frombuffer(samples, np.int16).astype(np.float64) / 2**15
    return torch.from_numpy(resample_poly(numbers, RATE, int(rate))).float()


def make_tone(frequency: float, samples: int, harmonics: int = 6) -> torch.Tensor:
    """Return a tone whose harmonics fall off as 1/n, of shape (samples,).

    Args:
        frequency: of the fundamental, in Hz.
        samples: its length.
        harmonics: their number, the fundamental included.
    """
    time = torch.arange(samples, dtype=torch.float64) / RATE
    waves = [torch.sin(2 * torch.pi * frequency * n * time) / n for n in range(1, harmonics + 1)]
    return (0.3 * torch.stack(waves).sum(0)).float()


def compute_mel(
    samples: torch.Tensor,
    *,
    bands: int,
    window: int,
    size: int,
    power: float,
    compress: Callable[[np.ndarray], np.ndarray] = lambda mel: mel,
) -> torch.Tensor:
    """Return a mel spectrogram of shape (1, frames, bands), with a frame every 10 ms.

    Args:
        samples: of shape (samples,).
        bands: mel bands from 0 Hz to 8 kHz, on Slaney's scale and with his norm.
        window: samples of the Hann window.
        size: samples of a transform.
        power: of the magnitudes, 1 or 2.
        compress: what becomes of the mel magnitudes.
    """
    from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

    filters = mel_filter_bank(
        1 + size // 2, bands, 0.0, RATE / 2, RATE, norm="slaney", mel_scale="slaney"
    )
    mel = spectrogram(
        samples.numpy(),
        window_function(window, "hann"),
        frame_length=window,
        hop_length=RATE // 100,
        fft_length=size,
        power=power,
        mel_filters=filters,
    )
    return torch.from_numpy(compress(mel).astype(np.float32).T.copy())[None]
