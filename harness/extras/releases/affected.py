"""What a change of ExecuTorch's own files can affect: targets, from the paths that it touches."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

ALL = ("portable", "xnnpack", "tosa", "mlx", "metal")

_OTHERS = (
    "apple/coreml apple/mps cadence cortex_m cuda example ggml mediatek nxp openvino qualcomm "
    "samsung vulkan webgpu"
).split()

AFFECTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    # Other delegates, and what no program comes by.
    *((f"backends/{name}/*", ()) for name in _OTHERS),
    ("docs/*", ()),
    ("examples/*", ()),
    (".github/*", ()),
    (".ci/*", ()),
    ("scripts/*", ()),
    ("*/test/*", ()),
    ("*/tests/*", ()),
    ("*.md", ()),
    ("*.rst", ()),
    # Delegates.
    ("backends/mlx/*", ("mlx",)),
    ("extension/llm/export/mx.py", ("mlx",)),
    ("extension/llm/export/nvfp4.py", ("mlx",)),
    ("backends/apple/metal/*", ("metal",)),
    ("backends/aoti/*", ("metal",)),
    ("backends/xnnpack/*", ("xnnpack",)),
    ("backends/arm/*", ("tosa",)),
    ("extension/*", ()),
    ("devtools/*", ()),
)
"""Globs over paths, the first that fits counts, with the backends whose cells a change there can
affect. A path that none fits (``exir/``, ``kernels/``, ``runtime/``, ``backends/transforms/``,
``schema/``, build files) can affect every cell."""


def affected(paths: Iterable[str]) -> list[str]:
    """The backends whose cells a change of these files can affect, in the order of :data:`ALL`.

    Args:
        paths: relative to ExecuTorch's repository, as git lists them.
    """
    found: set[str] = set()
    for path in filter(None, (text.strip() for text in paths)):
        found |= set(next((names for glob, names in AFFECTED if fnmatchcase(path, glob)), ALL))
    return [name for name in ALL if name in found]
