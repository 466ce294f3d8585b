"""XNNPACK's runtime ends the process for a damaged program instead of refusing it."""

import signal
import struct
import subprocess
import sys

import torch
from common import CannotTry, Observation, load, lower, main

REFUSED = 3


def program() -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    # Sizes that occur nowhere else in the program, so that their bytes can be found.
    layer, inputs = torch.nn.Linear(37, 53), (torch.randn(2, 37),)
    return bytes(lower(layer, inputs, XnnpackPartitioner()).to_executorch().buffer)


def damaged(whole: bytes) -> dict[str, bytes]:
    """Change one field of the XNNPACK payload in each copy of the program."""
    shape, larger = struct.pack("<3I", 2, 53, 37), struct.pack("<3I", 2, 53 << 20, 37)
    payload = whole.find(b"XN01")
    key = whole.find(b"\x40\x00\x00\x00", payload)  # Length of a SHA-256 in hexadecimal.
    if whole.count(shape) != 1 or payload < 0 or key < 0:
        raise CannotTry("the payload has another layout than that of executorch 1.5.1")
    return {
        "weight of 53 x 37 declared as 55,574,528 x 37": whole.replace(shape, larger),
        "name of the weight's data is not UTF-8": whole[: key + 4] + b"\xff" + whole[key + 5 :],
    }


def ending(data: bytes) -> str:
    """Load the program in a child process, and return how the process ended."""
    child = subprocess.run([sys.executable, __file__, "load"], input=data, capture_output=True)
    if child.returncode < 0:
        return f"killed by {signal.Signals(-child.returncode).name}"
    return {0: "loaded", REFUSED: "refused"}.get(child.returncode, f"exit {child.returncode}")


def observe() -> Observation:
    whole = program()
    if (sound := ending(whole)) != "loaded":
        raise CannotTry(f"the undamaged program is not loaded: {sound}")
    endings = {what: ending(data) for what, data in damaged(whole).items()}
    return Observation(
        dict.fromkeys(endings, "refused"),
        endings,
        wrong=any(end.startswith("killed") for end in endings.values()),
    )


def load_from_stdin() -> None:
    try:
        load(sys.stdin.buffer.read())
    except RuntimeError as error:
        print(error)
        sys.exit(REFUSED)


if __name__ == "__main__":
    load_from_stdin() if sys.argv[1:] == ["load"] else main(observe)
