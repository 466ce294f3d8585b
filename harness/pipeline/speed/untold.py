"""Graphs as text for logs that nobody reads, left out.

exir writes the whole graph as Python once for each delegate that it cuts out, and XNNPACK twice for
each delegate, as an argument of ``debug``: the text is made whether it is logged or not. With two
dozen delegates that is a twelfth of lowering.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from executorch.backends.xnnpack._passes import convert_to_linear, convert_to_sdpa
from executorch.exir.backend import backend_api
from torch.fx import GraphModule


@contextmanager
def _short(method: str) -> Iterator[None]:
    full = getattr(GraphModule, method)
    setattr(GraphModule, method, lambda module, **_: "")
    try:
        yield
    finally:
        setattr(GraphModule, method, full)


def _untold(function: Callable[..., Any], logger: logging.Logger, method: str) -> Any:
    """The same function, in which graphs have no text while nothing is logged."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if logger.isEnabledFor(logging.DEBUG):
            return function(*args, **kwargs)
        with _short(method):
            return function(*args, **kwargs)

    return called


def install() -> None:
    """Leave such texts out from now on."""
    backend_api._create_partitions_in_graph_module = _untold(
        backend_api._create_partitions_in_graph_module, logging.getLogger(), "__str__"
    )
    for module, converting in (
        (convert_to_linear, convert_to_linear.ConvertToLinearPass),
        (convert_to_sdpa, convert_to_sdpa.ConvertToSDPAPass),
    ):
        converting.call = _untold(converting.call, module.logger, "print_readable")
