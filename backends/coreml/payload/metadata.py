"""Read what stands beside the model in a payload: references, ``metadata.json``, the package.

A payload is a folder with the model, or, if methods share weights, a reference to a folder in the
named data of the program. Sources: ``coreml_backend_delegate.mm`` and ``model_metadata.h`` of the
delegate, ``preprocess_multimethod`` in ``compiler/coreml_preprocess.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backends.coreml.payload.folder import read_folder
from backends.coreml.payload.program import CoremlPayloadError
from harness import UnsupportedProgram

_REFERENCE = b"CMJR"
_PACKAGE = "model.mlpackage"
_COMPILED = "model.mlmodelc"


@dataclass(frozen=True)
class MilInterface:
    """Names of the inputs and outputs of a method, in the order in which the delegate gets them."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class CoremlModel:
    """The files of a payload.

    Attributes:
        model: the serialized model.
        files: the files beside it, by path from the model's folder.
        interface: the names of inputs and outputs.
        function: the name of the function to run; empty for the only one.
        shared: the key of the named data that has the files; empty if the payload has them.
    """

    model: memoryview
    files: Mapping[str, memoryview]
    interface: MilInterface
    function: str
    shared: str = ""


def find_model(data: bytes, named_data: Mapping[str, bytes | memoryview]) -> CoremlModel:
    """Find the model of a payload.

    Args:
        data: the payload.
        named_data: the named data of the program.

    Raises:
        CoremlPayloadError: the payload, or what it refers to, is malformed.
        UnsupportedProgram: the model is compiled, which macOS alone can read.
    """
    function = shared = ""
    if data.startswith(_REFERENCE):
        reference = _read_json(data[len(_REFERENCE) :], "its reference")
        shared = _require_text(reference.get("key"), "the key of its reference")
        function = _require_text(reference.get("functionName"), "the function of its reference")
        if shared not in named_data:
            raise CoremlPayloadError(f"the program has no named data {shared[:80]!r}")
        data = bytes(named_data[shared])
    files = read_folder(data)
    if any(path.startswith(f"{_COMPILED}/") for path in files):
        raise UnsupportedProgram("the CoreML model is compiled (model.mlmodelc): macOS runs it")
    if "metadata.json" not in files:
        raise CoremlPayloadError("it has no metadata.json")
    metadata = _read_json(files["metadata.json"], "metadata.json")
    place = _find_specification(files)
    folder = place.rpartition("/")[0]
    beside = {
        path.removeprefix(f"{folder}/"): content
        for path, content in files.items()
        if path.startswith(f"{folder}/")
    }
    interface = _read_interface(metadata, function)
    return CoremlModel(files[place], beside, interface, function, shared)


def _find_specification(files: Mapping[str, memoryview]) -> str:
    """Return the path of the serialized model; the package's manifest names it."""
    path = f"{_PACKAGE}/Manifest.json"
    if path not in files:
        raise CoremlPayloadError(f"it has no {path}")
    manifest = _read_json(files[path], path)
    items = manifest.get("itemInfoEntries")
    root = manifest.get("rootModelIdentifier")
    entry = items.get(root) if isinstance(items, dict) and isinstance(root, str) else None
    if not isinstance(entry, dict):
        raise CoremlPayloadError(f"{path} names no model")
    found = f"{_PACKAGE}/Data/{_require_text(entry.get('path'), 'the path of the model')}"
    if found not in files:
        raise CoremlPayloadError(f"it has no {found[:200]}")
    return found


def _read_interface(metadata: Mapping[str, Any], function: str) -> MilInterface:
    """Return the names of a method.

    The delegate looks the method's name up, and upstream writes methods under the names of their
    functions, so that both are the same.
    """
    methods = metadata.get("methods")
    if isinstance(methods, dict) and methods:
        if function not in methods:
            raise CoremlPayloadError(f"metadata.json has no method {function[:80]!r}")
        metadata = methods[function]
        if not isinstance(metadata, dict):
            raise CoremlPayloadError("metadata.json has a method that is no object")
    names = {}
    for key in ("inputNames", "outputNames"):
        found = metadata.get(key)
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise CoremlPayloadError(f"metadata.json has no list {key}")
        if len(set(found)) != len(found):
            raise CoremlPayloadError(f"metadata.json names a value twice in {key}")
        names[key] = tuple(found)
    if not names["outputNames"]:
        raise CoremlPayloadError("metadata.json names no output")
    return MilInterface(names["inputNames"], names["outputNames"])


def _read_json(data: bytes | memoryview, what: str) -> dict[str, Any]:
    try:
        found = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise CoremlPayloadError(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise CoremlPayloadError(f"{what} is no JSON object")
    return found


def _require_text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise CoremlPayloadError(f"{what} is {str(value)[:80]!r}, expected a name")
    return value
