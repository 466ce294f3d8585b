"""A program for OpenVINO's CPU plugin loads only where the instruction sets are the same."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from common import CannotTry, Observation, execute, main
from openvino_package import lower_program

VARIABLE = "ONEDNN_MAX_CPU_ISA"


def observe() -> Observation:
    if len(sys.argv) > 1:  # in the second process
        execute(Path(sys.argv[1]).read_bytes(), [torch.randn(4, 32)])
        raise SystemExit(0)
    program = lower_program(torch.nn.Linear(32, 16), (torch.randn(4, 32),))
    if b"isa=Intel AVX-512" not in program:
        raise CannotTry("this CPU has no AVX-512")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.pte")
        file.write_bytes(program)
        codes = []
        for limit in ({}, {VARIABLE: "AVX2"}):
            ended = subprocess.run(
                [sys.executable, __file__, str(file)],
                env={**os.environ, **limit},
                capture_output=True,
                text=True,
                check=False,
            )
            codes.append(ended.returncode)
    return Observation(
        "the program runs on AVX-512 and on AVX2",
        f"exit codes {codes} on AVX-512, and with {VARIABLE}=AVX2",
        wrong=codes[0] == 0 and codes[1] != 0,
    )


if __name__ == "__main__":
    main(observe)
