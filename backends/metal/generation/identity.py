"""Compute a digest of a partition; partitions with equal digests get equal code.

The digest covers everything that ``preprocess`` can read of a program: operators with arguments and
names, kinds of tensors, metadata, which Inductor copies into comments, the signature, and the bytes
of all constants, because short ones become literals. A program with an unsupported part, such as a
symbolic size, a branch or an operator of an unknown library, has no digest.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.traceback import NodeSource

from harness.vendors.executorch import EdgeOpOverload
from harness.vendors.torch import FakeTensor, OpOverload

_LIBRARIES = {"aten", "dim_order_ops", "prim", "prims", "quantized_decomposed", "torchao"}
"""Namespaces of operators that installed packages or ``lowbit`` define."""

_WITHOUT_EFFECT = {"seq_nr"}  # counts what autograd recorded in this process
_NUMBERED = re.compile(r"<eval_with_key>\.\d+")  # counts the graphs that this process compiled


class Unspelt(Exception):
    """A part of the program cannot be written as text."""


def identity(program: ExportedProgram, specs: Sequence[Any]) -> str | None:
    """Return the digest of a partition and its compile specs; None if a part is unsupported.

    Args:
        program: the program that ``MetalBackend.preprocess`` gets.
        specs: the partitioner's compile specs.
    """
    digest = hashlib.sha256()
    try:
        for part in _parts(program, specs):
            digest.update(part.encode() if isinstance(part, str) else part)
            digest.update(b"\n")
    except Unspelt:
        return None
    return digest.hexdigest()


def _parts(program: ExportedProgram, specs: Sequence[Any]) -> Iterator[str | bytes]:
    spell = _Spelling()
    if len(list(program.graph_module.modules())) > 1:
        raise Unspelt
    yield spell([(spec.key, bytes(spec.value)) for spec in specs])
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, FunctionType):
            raise Unspelt  # the name does not identify the function's code
        meta = {key: value for key, value in node.meta.items() if key not in _WITHOUT_EFFECT}
        yield spell((node.op, node.name, node.target, node.args, node.kwargs, node.type, meta))
    yield spell(program.graph_module.meta)
    yield spell(program.graph_signature)
    yield from (str(call) for call in program.module_call_graph)
    yield from (f"{symbol} {limits}" for symbol, limits in program.range_constraints.items())
    for values in (program.state_dict, program.constants):
        for name, value in values.items():
            if type(value) not in (torch.Tensor, torch.nn.Parameter):
                raise Unspelt
            yield spell((name, type(value), spell.tensor(value)))
            yield _bytes(value)


def _bytes(tensor: torch.Tensor) -> bytes:
    try:
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(flat.numpy().data).digest()
    except (RuntimeError, TypeError) as error:  # no storage, or a dtype without bytes
        raise Unspelt from error


class _Spelling:
    """Writes values as text; different values have different text."""

    def __init__(self) -> None:
        # Shared values are written once. The reference keeps the value's id from being reused.
        self._shared: dict[int, tuple[Any, str]] = {}

    def __call__(self, value: Any) -> str:
        known = self._shared.get(id(value))
        if known is not None:
            return known[1]
        text = self._write(value)
        if isinstance(value, (NodeSource, torch.Tensor, dict)):
            self._shared[id(value)] = value, text
        return text

    def _write(self, value: Any) -> str:
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(value)
        if isinstance(value, Sequence):
            return f"{kind.__name__}[{','.join(map(self, value))}]"
        if isinstance(value, Mapping):
            items = (f"{self(key)}:{self(item)}" for key, item in value.items())
            return f"{kind.__name__}{{{','.join(items)}}}"
        if isinstance(value, FakeTensor):
            return f"fake{self.tensor(value)}"
        if isinstance(value, NodeSource):
            action = value._get_action_string()
            parts = (value.name, value.target, value.pass_name, action, value.from_node)
            return f"source{self(parts)}"
        if isinstance(value, (OpOverload, EdgeOpOverload)):
            return _operator(value)
        if isinstance(value, type):
            return _named(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__qualname__}.{value.name}"
        if dataclasses.is_dataclass(value):
            named = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
            return f"{kind.__qualname__}{self(named)}"
        raise Unspelt

    def tensor(self, tensor: torch.Tensor) -> str:
        """Describe a tensor without its values."""
        numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        if tensor.layout != torch.strided or any(type(each) is not int for each in numbers):
            raise Unspelt
        return (
            f"{tensor.dtype}{numbers}{tensor.dim()}{tensor.device}{tensor.requires_grad}"
            f"{tensor.is_conj()}{tensor.is_neg()}"
        )


def _text(value: str) -> str:
    return repr(_NUMBERED.sub("<eval_with_key>", value) if "<eval" in value else value)


def _named(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _operator(op: Any) -> str:
    if op.namespace not in _LIBRARIES:
        raise Unspelt
    return f"{type(op).__name__}:{op}"


_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): str,
    bool: str,
    int: str,
    float: float.hex,
    complex: repr,
    str: _text,
    bytes: repr,
    torch.dtype: str,
    torch.device: lambda value: f"device {value}",
    torch.layout: str,
    torch.memory_format: str,
    torch.fx.Node: lambda value: f"%{value.name}",
    FunctionType: _named,
    MethodType: _named,
    BuiltinFunctionType: _named,
    MethodDescriptorType: lambda value: f"{value.__objclass__.__qualname__}.{value.__name__}",
}
