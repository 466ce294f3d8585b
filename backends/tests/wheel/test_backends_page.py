"""docs/backends.md names every backend, and the recipes of the table exist."""

from __future__ import annotations

import re
from pathlib import Path

from harness import registry

PAGE = Path(__file__).parents[3] / "docs" / "backends.md"


def test_the_table_has_every_backend_and_no_recipe_that_is_missing() -> None:
    rows = [
        line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| `")
    ]
    recipes = {row[0].strip(" `"): re.findall(r"`(\w+)`", row[4]) for row in rows if len(row) == 6}
    assert set(recipes) == set(registry.names()) - {"null"}
    for name, listed in recipes.items():
        assert listed
        assert set(listed) <= {*registry.backend(name).recipes, "mxfp"}, name
