"""Write calls.json, the calls that are cases.

    python -m suites.overloads.choose [--check]

With ``--check`` nothing is written, and the script prints the overloads that differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from suites.overloads.claims import find_operators, find_overloads
from suites.overloads.generate import make_calls

CHOSEN = Path(__file__).with_name("calls.json")


def choose_calls() -> tuple[dict[str, list[str]], int]:
    """The calls of each overload, and how many further calls eager refused."""
    found, refused = {}, 0
    for name in find_overloads(find_operators()):
        made = make_calls(name)
        found[name] = made.calls
        refused += len(made.refused)
    return found, refused


def main() -> None:
    """Write calls.json, or check it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    given = parser.parse_args()
    found, refused = choose_calls()
    if given.check:
        before = json.loads(CHOSEN.read_text(encoding="utf-8"))
        if differing := [
            name for name in sorted({*before, *found}) if before.get(name) != found.get(name)
        ]:
            sys.exit(f"calls of {', '.join(differing)} differ from {CHOSEN.name}")
        return
    CHOSEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    count = sum(map(len, found.values()))
    print(f"wrote {count} calls of {len(found)} overloads; eager refused {refused} others")


if __name__ == "__main__":
    main()
