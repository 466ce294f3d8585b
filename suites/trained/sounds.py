"""Speech that espeak-ng synthesizes, tones, noise, and their mel spectrograms. All at 16 kHz."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence

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

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)
_RETRIEVAL, _CHARACTERS, _UTF8 = 1, 1, 1  # espeak-ng's speak_lib.h


@functools.cache
def speak(text: str, voice: str = "en-us") -> torch.Tensor:
    """Synthesize a sentence.

    Args:
        text: the sentence.
        voice: a voice of espeak-ng, such as ``en-us+f2``.

    Returns:
        Samples from -1 to 1, float32 of shape (samples,).
    """
    from scipy.signal import resample_poly

    library, rate = _start()
    pieces: list[np.ndarray] = []

    def keep(samples: Sequence[int], count: int, _events: object) -> int:
        if samples and count:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    callback = _Callback(keep)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()):
        raise ValueError(f"espeak-ng has no voice {voice!r}")
    data = text.encode() + b"\0"
    library.espeak_Synth(data, len(data), 0, _CHARACTERS, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    samples = np.concatenate(pieces).astype(np.float64) / 2**15
    return torch.from_numpy(resample_poly(samples, RATE, rate)).float()


@functools.cache
def _start() -> tuple[ctypes.CDLL, int]:
    """Load espeak-ng; returns it and its sample rate."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    path = str(espeakng_loader.get_data_path()).removesuffix("/espeak-ng-data")
    rate = library.espeak_Initialize(_RETRIEVAL, 0, path.encode(), 0)
    if rate <= 0:
        raise OSError(f"espeak-ng does not find its data in {path}")
    return library, rate


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
