"""Maps changed files of ExecuTorch to the targets that they can affect."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

ALL_BACKENDS = tuple("portable xnnpack tosa mlx metal coreml cortex_m openvino vgf".split())

_OTHERS = (
    "apple/mps cadence cuda example ggml mediatek nxp qualcomm samsung vulkan webgpu"
).split()

AFFECTED_BACKENDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    # Other delegates, and files that no program uses.
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
    ("backends/apple/coreml/*", ("coreml",)),
    ("backends/cortex_m/*", ("cortex_m",)),
    ("backends/openvino/*", ("openvino",)),
    ("backends/arm/vgf/*", ("vgf",)),
    # Their passes and quantizers are those of Arm's TOSA backend.
    ("backends/arm/*", ("tosa", "cortex_m", "vgf")),
    ("extension/*", ()),
    ("devtools/*", ()),
)
"""Globs over paths, with the backends that a change there can affect; the first match counts.

A path without a match (``exir/``, ``kernels/``, ``runtime/``, ``backends/transforms/``,
``schema/``, build files) can affect every cell.
"""


def find_affected_backends(paths: Iterable[str]) -> list[str]:
    """Return the backends that a change of these files can affect, in the order of
    :data:`ALL_BACKENDS`.

    Args:
        paths: relative to ExecuTorch's repository, as git lists them.
    """
    found: set[str] = set()
    for path in filter(None, (text.strip() for text in paths)):
        found |= set(
            next(
                (names for glob, names in AFFECTED_BACKENDS if fnmatchcase(path, glob)),
                ALL_BACKENDS,
            )
        )
    return [name for name in ALL_BACKENDS if name in found]
