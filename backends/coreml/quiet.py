"""Import coremltools and executorch's CoreML package without their logs and progress bars."""

from __future__ import annotations

import functools
import importlib
import logging
from types import ModuleType

from harness.vendors.replacements import AttributeReplacer

# Of the modules that make bars; tqdm itself reads TQDM_DISABLE when it is imported, which is
# before this.
_BARS = (
    ("coremltools.converters.mil.frontend.torch.ops", "_tqdm"),
    ("coremltools.converters.mil.mil.passes.pass_pipeline", "tqdm"),
)
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
    """
    converter = logging.getLogger("coremltools")
    converter.setLevel(logging.CRITICAL)
    compiler = importlib.import_module("executorch.backends.apple.coreml.compiler")
    importlib.import_module("executorch.backends.apple.coreml.partition")
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    replace = AttributeReplacer("coreml.quiet")
    for name, attribute in _BARS:
        module = importlib.import_module(name)
        bar = vars(module)[attribute]
        replace(module, attribute, functools.partial(bar, disable=True))
    return compiler
