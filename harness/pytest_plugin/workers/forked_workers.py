"""Start xdist's workers by the command of a forked Python process (public hooks of xdist)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from harness.workers import fork_server

if TYPE_CHECKING:
    import execnet
    from xdist.workermanage import WorkerController


class ForkedWorkers:
    """Plugin of the controller that forks workers of this machine.

    All workers are forked if a server runs already or there are more workers than cores. Otherwise
    only replacements are: the first workers import in parallel and need not wait for the server.
    """

    @pytest.hookimpl
    def pytest_xdist_setupnodes(
        self, config: pytest.Config, specs: Sequence[execnet.XSpec]
    ) -> None:
        """Fork the first workers, if that is faster."""
        if fork_server.is_announced() or len(specs) > (os.cpu_count() or 1):
            for spec in specs:
                _fork(spec)

    @pytest.hookimpl
    def pytest_testnodedown(self, node: WorkerController, error: object | None) -> None:
        """Fork the replacement of a worker, which xdist starts like the worker that died."""
        if error is not None:
            _fork(node.gateway.spec)


def _fork(spec: execnet.XSpec) -> None:
    """Set the Python of a worker on this machine, unless another one was chosen."""
    if spec.popen and not spec.python:
        spec.python = shlex.join(fork_server.python_command())
