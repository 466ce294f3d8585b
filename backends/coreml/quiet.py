"""Import coremltools and executorch's CoreML package without logs, bars and collections."""

from __future__ import annotations

import functools
import logging
from types import ModuleType, SimpleNamespace

from harness.vendors.replacements import AttributeReplacer

_LOGGERS = (
    "coremltools",
    "executorch.backends.apple.coreml.compiler.coreml_preprocess",
    "executorch.backends.apple.coreml.partition.coreml_partitioner",
)


@functools.cache
def import_compiler() -> ModuleType:
    """Import the delegate's compiler, and with it coremltools; returns the module.

    coremltools logs untested versions of torch and missing macOS libraries, and every conversion
    logs a specification version and writes three progress bars. Its errors are raised as well.

    A conversion ends with a full garbage collection. In a process that has run a thousand cells it
    takes longer than the conversion of an operator, so it is left to the collector.
    """
    converter = logging.getLogger("coremltools")
    converter.setLevel(logging.CRITICAL)
    from coremltools.converters import _converters_entry
    from coremltools.converters.mil.frontend.torch import ops
    from coremltools.converters.mil.mil.passes import pass_pipeline
    from executorch.backends.apple.coreml import compiler, partition  # noqa: F401

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # tqdm reads TQDM_DISABLE when it is imported, which is before this.
    replace = AttributeReplacer("coreml.quiet")
    for module, attribute in ((ops, "_tqdm"), (pass_pipeline, "tqdm")):
        bar = vars(module)[attribute]
        replace(module, attribute, functools.partial(bar, disable=True))
    replace(_converters_entry, "gc", SimpleNamespace(collect=lambda: 0))
    made: ModuleType = compiler
    return made
