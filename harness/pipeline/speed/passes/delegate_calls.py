"""Avoid building a module of a delegate's program for each call on fake tensors.

A walk over a lowered program calls its delegates' original programs. Upstream builds a module for
the call: attributes for weights, guards, code. If the inputs have the kinds that the program was
exported for, its operators are called in order instead.

Assumes that the module calls the operators in this order, without other effects. Verified by
digests of ``ExportedProgram.module`` and of the delegate's call (``originals``).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import delegate
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node, map_arg

from harness.pipeline.speed.passes.fake_keys import NotCacheable, TensorKind, get_kind
from harness.pipeline.speed.passes.fake_results import create_fake_tensors, get_sole_fake_mode
from harness.vendors.replacements import AttributeReplacer

# The operator's module, which is now part of torch.
_HOME: Any = sys.modules[type(delegate.executorch_call_delegate).__module__]
_upstream = _HOME.call_delegate_cpu
_READ = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}


def _call_delegate(lowered: Any, *args: Any) -> Any:
    """Replaces ``call_delegate_cpu``."""
    mode = get_sole_fake_mode()
    if mode is not None:
        try:
            return _called(lowered.original_module, args, mode)
        except NotCacheable:
            pass
    return _upstream(lowered, *args)


def _called(program: ExportedProgram, args: Sequence[Any], mode: FakeTensorMode) -> tuple[Any, ...]:
    """Call the operators of a program on fake tensors.

    Raises:
        NotCacheable: the program mutates values, calls other functions, or gets inputs of other
            kinds than it was exported for.
    """
    signature, tree = program.graph_signature, program.call_spec.out_spec
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in signature.output_specs):
        raise NotCacheable
    nodes = list(program.graph.nodes)
    made = nodes[-1].args[0]
    if tree is None or tree.type is not tuple or tree.num_leaves != tree.num_children:
        raise NotCacheable
    if not all(isinstance(one, Node) and one.op == "call_function" for one in made):
        raise NotCacheable
    inputs = [node for node in nodes if node.op == "placeholder"]
    if sum(spec.kind is InputKind.USER_INPUT for spec in signature.input_specs) != len(args):
        raise NotCacheable
    given = iter(args)
    values: dict[Node, Any] = {}
    for node, spec in zip(inputs, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            values[node] = _as_declared(next(given), node.meta.get("val"), mode)
        elif spec.kind in _READ:
            values[node] = create_fake_tensors(_kind_of_held(program, spec.target), mode)
        else:
            raise NotCacheable
    for node in nodes[len(inputs) : -1]:
        if not isinstance(node.target, EdgeOpOverload) and node.target is not operator.getitem:
            raise NotCacheable
        its_args, its_kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = node.target(*its_args, **its_kwargs)
    return tuple(values[node] for node in made)


def _as_declared(value: Any, declared: Any, mode: FakeTensorMode) -> Any:
    if type(value) is not FakeTensor or type(declared) is not FakeTensor:
        raise NotCacheable
    if get_kind(value, mode) != get_kind(declared, mode):
        raise NotCacheable
    return value


def _kind_of_held(program: ExportedProgram, name: str | None) -> TensorKind:
    """Return the kind of a weight or constant as the mode converts it, without its values."""
    held = program.state_dict.get(name, program.constants.get(name))
    if type(held) not in (torch.Tensor, torch.nn.Parameter) or held.layout is not torch.strided:
        raise NotCacheable
    if held.storage_offset() or held.is_conj() or held.is_neg() or held.is_quantized:
        raise NotCacheable
    return TensorKind(held.shape, held.stride(), held.dtype, held.device, 0)


def install(replace: AttributeReplacer) -> None:
    """Call the operators of a delegate's program from now on."""
    replace(_HOME, "call_delegate_cpu", _call_delegate)
