"""``python -m pytest``, or another module, in a process forked from one that has imported torch and
executorch.

Sessions of the tests are seconds each, nearly all of them imports. But for these the new process is
as new as one that a command starts: nothing was computed in it.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.pytest_plugin.workers import fork_server


def run(
    module: str,
    arguments: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    files: tuple[Path, Path],
    seconds: float,
) -> int:
    """Run a module with these arguments, or what ``-c`` is given, output and errors into two files.

    Returns:
        Its exit code, or the signal that ended it below 0.

    Raises:
        TimeoutError: it took longer, and was killed.
    """
    given = (module, tuple(arguments), str(folder), dict(environ), tuple(map(str, files)))
    process = fork_server.ForkedProcess(_session, *given)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        said = f"{module} {' '.join(arguments)} took longer than {seconds:g} s"
        raise TimeoutError(said) from None


def _session(
    module: str,
    arguments: Sequence[str],
    folder: str,
    environ: Mapping[str, str],
    files: Sequence[str],
) -> None:
    opened = [os.open(os.devnull, os.O_RDONLY)]
    opened += [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in files]
    fork_server.take_over_process(folder, environ, opened)
    for stream in opened:
        os.close(stream)
    # As a command has it: the process of the tests hands on its own, to which some of them add, and
    # a package that lies there would be one that is installed.
    installed = [place for place in sys.path if place.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [folder, *environ.get("PYTHONPATH", "").split(os.pathsep), *installed]
    # As PYTHONWARNINGS=ignore would have it.
    sys.warnoptions.append("ignore")
    warnings.simplefilter("ignore")
    if module == "-c":
        code, *rest = arguments
        sys.argv = [module, *rest]
        exec(code, {"__name__": "__main__"})
    else:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
