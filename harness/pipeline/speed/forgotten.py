"""What exir keeps of programs that were lowered long ago, forgotten.

A partitioner must leave the program as it was, and exir compares it with a copy; every pair of
nodes that it compares stays in a cache without bounds, and with a node its whole program: 400
objects an operator for as long as the process lives, which each full garbage collection walks. No
pair is met again in another comparison.
"""

from __future__ import annotations

import functools
from typing import Any

from executorch.exir.backend import utils

from harness.pipeline.speed.kept import replace_everywhere

_upstream = utils.is_identical_graph


@functools.wraps(_upstream)
def _is_identical_graph(*graphs: Any) -> bool:
    """Stands for ``is_identical_graph``."""
    try:
        return bool(_upstream(*graphs))
    finally:
        utils.is_same_node.cache_clear()


def install() -> None:
    """Forget what was compared from now on."""
    replace_everywhere(_upstream, _is_identical_graph)
