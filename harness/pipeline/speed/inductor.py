"""Avoid rebuilding Inductor's dtype rules for each kernel, and records of unread logs.

The dtype rules of operators are in one handler for the process; each kernel rebuilds all of them.
Each compilation ends with a metrics record, for which the configurations of Dynamo and Inductor are
written as JSON.

Assumes that the rules change only when a rule is registered, and that metrics are read only through
logging. Verified by digests of the registration and the logging function (``originals``).
"""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

from torch import _utils_internal
from torch._dynamo import utils
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

from harness.vendors.replacements import AttributeReplacer

_make_rules = DtypePropagationOpsHandler.__init__
_record = utils.record_compilation_metrics
_trace = logging.getLogger("torch.__trace")
_made: WeakKeyDictionary[DtypePropagationOpsHandler, tuple[int, int]] = WeakKeyDictionary()


def _rules_once(handler: DtypePropagationOpsHandler) -> None:
    """Replaces the handler's ``__init__``, which runs on the same handler for each kernel."""
    from torch._inductor import utils as inductor_utils
    from torch._inductor.codegen.common import pointwise_overrides_data

    of = len(inductor_utils.op_dtype_propagation_rules), len(pointwise_overrides_data)
    if _made.get(handler) != of:
        _make_rules(handler)
        _made[handler] = of


def _record_if_read(*args: Any, **kwargs: Any) -> None:
    """Replaces ``record_compilation_metrics``."""
    if _trace.handlers or _utils_internal.log.isEnabledFor(logging.INFO):
        _record(*args, **kwargs)


def install(replace: AttributeReplacer) -> None:
    """Build rules once and metrics only when they are read from now on."""
    replace(DtypePropagationOpsHandler, "__init__", _rules_once)
    replace(utils, "record_compilation_metrics", _record_if_read)
