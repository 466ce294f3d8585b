"""Synthesize speech with espeak-ng in a process of its own: what it draws depends on what it said.

    python synthesizer.py LIBRARY DATA VOICE TEXT

writes the sample rate in Hz, a newline, and the samples, int16.
"""

from __future__ import annotations

import ctypes
import sys

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)
_RETRIEVAL, _CHARACTERS, _UTF8 = 1, 1, 1  # espeak-ng's speak_lib.h


def main(path: str, data: str, voice: str, text: str) -> None:
    """Write the rate and the samples of a text to standard output."""
    library = ctypes.CDLL(path)
    rate = library.espeak_Initialize(_RETRIEVAL, 0, data.encode(), 0)
    if rate <= 0:
        raise SystemExit(f"espeak-ng does not find its data in {data}")
    pieces: list[bytes] = []

    def keep(samples: ctypes._Pointer[ctypes.c_short], count: int, _events: object) -> int:
        if samples and count:
            pieces.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = _CALLBACK(keep)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()):
        raise SystemExit(f"espeak-ng has no voice {voice!r}")
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))  # by default the time of day
    said = text.encode() + b"\0"
    library.espeak_Synth(said, len(said), 0, _CHARACTERS, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    sys.stdout.buffer.write(b"%d\n" % rate + b"".join(pieces))


if __name__ == "__main__":
    main(*sys.argv[1:])
