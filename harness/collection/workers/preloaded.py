"""What every process that runs cells imports, for a server that forks them (:mod:`.forking`).

Importing computes nothing, and starts no thread.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import harness.pipeline.runner  # noqa: F401
    from harness.pipeline import speed

    speed.left_out()  # imports its parts
