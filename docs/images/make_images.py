"""Take the pictures of README.md from real runs, with an installed Chromium.

    python docs/images/make_images.py runs/NEWEST runs/OLDER ...

The report is that of the first run, the dashboard has all of them. Each picture has at most 200 kB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
LIMIT = 200_000
WIDTH, HEIGHT = 1280, 900
COLORS = 128


def take_picture(page: Path, picture: Path) -> None:
    """Write a PNG file of the first screen of a page.

    Raises:
        subprocess.CalledProcessError: Chromium did not start.
        SystemExit: the picture has more than ``LIMIT`` bytes.
    """
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    wait = "--virtual-time-budget=10000"  # milliseconds for the scripts of the page
    size = f"--window-size={WIDTH},{HEIGHT}"
    command = ["chromium", *options, wait, size, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    with Image.open(picture) as image:
        image.convert("RGB").quantize(COLORS).save(picture, optimize=True)
    if picture.stat().st_size > LIMIT:
        sys.exit(f"{picture} has {picture.stat().st_size:,} bytes; at most {LIMIT:,} are allowed")


def main() -> None:
    """Take both pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, newest first")
    runs = parser.parse_args().runs
    conform = [sys.executable, "-m", "harness.cli"]
    subprocess.run([*conform, "report", str(runs[0])], check=True, stdout=subprocess.DEVNULL)
    take_picture(runs[0] / "report.html", HERE / "report.png")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        subprocess.run([*conform, "dashboard", str(site), *map(str, runs)], check=True)
        take_picture(site / "index.html", HERE / "dashboard.png")


if __name__ == "__main__":
    main()
