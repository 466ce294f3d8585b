"""Avoid formatting graphs and stacks that no one reads.

* exir formats the whole graph as Python for each delegate it creates, and XNNPACK twice for each
  delegate, as an argument of ``debug``, whether it is logged or not: a twelfth of lowering with two
  dozen delegates.
* The partitioners of XNNPACK and MLX call ``inspect.stack`` to find their callers. It reads the
  source of each frame: a third of an operator's lowering in a pytest worker. torch's operator
  database does the same for each sample.
* Arm's passes format the whole stack for each new node and use its second innermost line.

Assumes that these callers read only names of files and functions, or that line. Verified by digests
of the callers (``originals``). With logging at DEBUG, graphs are formatted as upstream does.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from executorch.backends.xnnpack._passes import convert_to_linear, convert_to_sdpa
from executorch.exir.backend import backend_api
from torch.fx import GraphModule

from harness.vendors.replacements import AttributeReplacer

_stack = inspect.stack
# Callers that read only frames and the names of functions and files.
_ASKING = frozenset(
    {"_check_if_called_from_to_backend", "_is_to_edge_transform_and_lower", "extract_test_fn"}
)

_format_stack = traceback.format_stack
# Callers that use the second innermost line.
_OF_TWO = "/backends/arm/_passes/arm_pass"


class _TextMethod:
    """A method of graph modules that formats the graph, or returns no text while skipped.

    The method is replaced once: an assignment to a class visits all of its subclasses, and each
    graph module has its own class.
    """

    def __init__(self, method: str, replace: AttributeReplacer) -> None:
        self._unread = 0
        full = getattr(GraphModule, method)

        @functools.wraps(full)
        def write(*args: Any, **options: Any) -> Any:
            return "" if self._unread else full(*args, **options)

        replace(GraphModule, method, write)

    @contextmanager
    def skip(self) -> Iterator[None]:
        """Return no text within a block."""
        self._unread += 1
        try:
            yield
        finally:
            self._unread -= 1


def _skip_unread_text(
    function: Callable[..., Any], logger: logging.Logger, text: _TextMethod
) -> Any:
    """Wrap a function so that it formats no graph unless its logger is enabled for DEBUG."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if logger.isEnabledFor(logging.DEBUG):
            return function(*args, **kwargs)
        with text.skip():
            return function(*args, **kwargs)

    return called


def _callers(context: int = 1) -> list[inspect.FrameInfo]:
    """Replaces ``inspect.stack``."""
    asking = sys._getframe(1)
    if asking.f_code.co_name not in _ASKING:
        return inspect.getouterframes(asking, context)
    found, frame = [], asking
    while frame is not None:
        code = frame.f_code
        found.append(
            inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
        )
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _lines_of_callers(f: FrameType | None = None, limit: int | None = None) -> list[str]:
    """Replaces ``traceback.format_stack``."""
    if f is None:
        f = sys._getframe(1)
        is_arms = _OF_TWO in f.f_code.co_filename
        limit = 2 if limit is None and is_arms else limit
    return _format_stack(f, limit)


def install(replace: AttributeReplacer) -> None:
    """Skip this text from now on."""
    replace(inspect, "stack", _callers)
    replace(traceback, "format_stack", _lines_of_callers)
    partition = backend_api._create_partitions_in_graph_module
    replacement = _skip_unread_text(partition, logging.getLogger(), _TextMethod("__str__", replace))
    replace(backend_api, partition.__name__, replacement)
    readable = _TextMethod("print_readable", replace)
    for module, converting in (
        (convert_to_linear, convert_to_linear.ConvertToLinearPass),
        (convert_to_sdpa, convert_to_sdpa.ConvertToSDPAPass),
    ):
        replace(converting, "call", _skip_unread_text(converting.call, module.logger, readable))
