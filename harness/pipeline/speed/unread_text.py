"""What is made to be read, and by nobody, left out.

exir writes the whole graph as Python once for each delegate that it cuts out, and XNNPACK twice for
each delegate, as an argument of ``debug``: the text is made whether it is logged or not. With two
dozen delegates that is a twelfth of lowering. The partitioners of XNNPACK and MLX ask by
``inspect.stack`` which functions called them; it looks for the source of each frame, which below a
worker of pytest takes a third of an operator's lowering. So does torch's database of operators for
each sample that it makes, to find a test of its own. Each walk over a graph makes a progress
bar, shown or not. For each node that they make Arm's passes format the whole stack of calls, of
which they keep the second line from below.
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
from torch.fx import GraphModule, interpreter

from harness.vendors.replacements import AttributeReplacer

_stack = inspect.stack
# They look at frames, and at names of functions and files, alone.
_ASKING = frozenset(
    {"_check_if_called_from_to_backend", "_is_to_edge_transform_and_lower", "extract_test_fn"}
)

_format_stack = traceback.format_stack
# They keep the second line from below.
_OF_TWO = "/backends/arm/_passes/arm_pass"
_bar = vars(interpreter)["tqdm"]


class _TextMethod:
    """A method of graph modules that writes their graph; it writes nothing while nobody reads it.

    It stays where it is. Each module has a class of its own, and to write to a class that thousands
    derive from is to go through all of them.
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
        """Nobody reads it in here."""
        self._unread += 1
        try:
            yield
        finally:
            self._unread -= 1


def _skip_unread_text(
    function: Callable[..., Any], logger: logging.Logger, text: _TextMethod
) -> Any:
    """The same function, in which graphs have no text while nothing is logged."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if logger.isEnabledFor(logging.DEBUG):
            return function(*args, **kwargs)
        with text.skip():
            return function(*args, **kwargs)

    return called


def _callers(context: int = 1) -> list[inspect.FrameInfo]:
    """Stands for ``inspect.stack``."""
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
    """Stands for ``traceback.format_stack``."""
    if f is None:
        f = sys._getframe(1)
        is_arms = _OF_TWO in f.f_code.co_filename
        limit = 2 if limit is None and is_arms else limit
    return _format_stack(f, limit)


class _NoBar:
    """A progress bar that is not shown."""

    def update(self, _: int) -> None:
        """Take note of nothing."""


def _bar_if_shown(*args: Any, disable: bool = False, **options: Any) -> Any:
    """Stands for ``tqdm``, which makes locks and counts time for a bar that is not shown."""
    return _NoBar() if disable else _bar(*args, **options)


def install(replace: AttributeReplacer) -> None:
    """Leave such things out from now on."""
    replace(inspect, "stack", _callers)
    replace(traceback, "format_stack", _lines_of_callers)
    replace(interpreter, "tqdm", _bar_if_shown)
    partition = backend_api._create_partitions_in_graph_module
    replacement = _skip_unread_text(partition, logging.getLogger(), _TextMethod("__str__", replace))
    replace(backend_api, partition.__name__, replacement)
    readable = _TextMethod("print_readable", replace)
    for module, converting in (
        (convert_to_linear, convert_to_linear.ConvertToLinearPass),
        (convert_to_sdpa, convert_to_sdpa.ConvertToSDPAPass),
    ):
        replace(converting, "call", _skip_unread_text(converting.call, module.logger, readable))
