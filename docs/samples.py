"""Write or check the sample output in README.md.

    python docs/samples.py            # run the command and write its output into README.md
    python docs/samples.py --check    # exit with 1 if the command prints something else now

The check ignores the section on time, which differs between machines.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_SOURCE = re.compile(r"`net\.py`:\n\n```python\n(?P<code>.*?)```", re.S)
_SAMPLE = re.compile(
    r"(?P<head><!-- sample -->\n```\n\$ conform (?P<command>[^\n]*)\n)(?P<text>.*?)```", re.S
)
_TIME = re.compile(r"^Time\n.*?\n\n", re.S | re.M)


def run_sample(page: str) -> tuple[re.Match[str], str]:
    """Find the sample of a page and run its command.

    Returns:
        the match of the sample, and the text that the command prints now.

    Raises:
        SystemExit: the page has no sample, or the command was misused.
    """
    code, sample = _SOURCE.search(page), _SAMPLE.search(page)
    if code is None or sample is None:
        sys.exit(f"{README} has no sample: `net.py` in a python block and <!-- sample --> below")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "net.py").write_text(code["code"])
        command = [sys.executable, "-m", "harness.cli", *sample["command"].split()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(done.stderr)
    lines = (line.rstrip() for line in done.stdout.rstrip().splitlines())
    return sample, "\n".join(lines) + "\n"


def remove_times(text: str) -> str:
    """The text without the section that lists how long each stage took."""
    return _TIME.sub("", text)


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if stale")
    check = parser.parse_args().check
    page = README.read_text()
    sample, printed = run_sample(page)
    if check:
        if remove_times(printed) == remove_times(sample["text"]):
            return 0
        print(f"README.md is stale: run python docs/samples.py. The command prints:\n\n{printed}")
        return 1
    README.write_text(page[: sample.start("text")] + printed + page[sample.end("text") :])
    return 0


if __name__ == "__main__":
    sys.exit(main())
