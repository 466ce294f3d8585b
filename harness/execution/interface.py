"""Inputs and outputs of a program: the trees of the export and the role of each returned value.

A program returns a flat list, mutated inputs first and then outputs, in the order of its graph
signature. It does not return mutated buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind

from harness.errors import CaseError
from harness.model.case import CallInputs, arguments, make_call
from harness.vendors.torch import TreeSpec, keystr, tree_flatten_with_path, tree_unflatten


@dataclass(frozen=True)
class ValuePosition:
    """Identifies a value that a program returns.

    Attributes:
        role: ``output``, or ``input`` for a mutated input.
        index: its position among the leaves of the outputs, or of the inputs.
        path: its path in the tree of outputs, such as ``[0]['mask']``; empty for an input.
    """

    role: str
    index: int
    path: str = ""

    @property
    def key(self) -> tuple[str, str | int]:
        """An identity that does not depend on the order of keys in dicts."""
        return (self.role, self.index if self.role == "input" else self.path)

    def __str__(self) -> str:
        if self.role == "input":
            return f"changed input {self.index}"
        return f"output {self.index}" + (f" ({self.path})" if "'" in self.path else "")


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of one program.

    Attributes:
        in_spec: tree of (positional inputs, keyword inputs) of the export.
        out_spec: tree of the outputs.
        positions: one for each returned value, in the order of the program.
    """

    in_spec: TreeSpec
    out_spec: TreeSpec
    positions: tuple[ValuePosition, ...]

    @classmethod
    def from_export(cls, exported: ExportedProgram, signature: ExportGraphSignature) -> Interface:
        """Create from the trees of an exported program and the signature of the lowered one."""
        paths = list_output_paths(exported.call_spec.out_spec)
        inputs = [spec.arg.name for spec in signature.input_specs if spec.kind is _USER_INPUT]
        places = []
        returned = 0
        for spec in signature.output_specs:
            if spec.kind is OutputKind.USER_OUTPUT:
                places.append(ValuePosition("output", returned, paths[returned]))
                returned += 1
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                places.append(ValuePosition("input", inputs.index(str(spec.target))))
        return cls(exported.call_spec.in_spec, exported.call_spec.out_spec, tuple(places))

    @property
    def mutated_inputs(self) -> frozenset[int]:
        """Indices of the inputs that the program declares as mutated."""
        return frozenset(place.index for place in self.positions if place.role == "input")

    def arrange(self, inputs: CallInputs) -> CallInputs:
        """Return the inputs of a call with the keys of dicts in the order of the export.

        Raises:
            CaseError: the inputs do not have the tree of the exported program's inputs.
        """
        try:
            leaves = self.in_spec.flatten_up_to(arguments(inputs))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"no key {error}" if isinstance(error, KeyError) else error
            raise CaseError(
                f"the inputs of a call do not fit the inputs that were exported: {reason}"
            ) from error
        return make_call(*tree_unflatten(leaves, self.in_spec))

    def find_tree_difference(self, spec: TreeSpec) -> str | None:
        """Describe how the tree of outputs differs from another tree; None if it does not."""
        return _difference(self.out_spec, spec, "")


_USER_INPUT = InputKind.USER_INPUT


def list_output_paths(spec: TreeSpec) -> list[str]:
    """List the path of each leaf of a tree, in order."""
    # Some nodes, such as caches, accept only tensors as leaves.
    tree = tree_unflatten([torch.empty(0)] * spec.num_leaves, spec)
    return [keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]


def _difference(found: TreeSpec, expected: TreeSpec, path: str) -> str | None:
    where = f"output{path}" if path else "the output"
    if found.type is not expected.type:
        return f"{where} is {_kind(found)}, expected {_kind(expected)}"
    mine, theirs = _get_children(found), _get_children(expected)
    if mine.keys() != theirs.keys():
        return f"{where} has {_describe_children(mine)}, expected {_describe_children(theirs)}"
    if found.type is not dict and found.context != expected.context:
        at, had, wanted = _entry(found.context, expected.context)
        return f"{where} is {_kind(found)} {at + ': ' if at else ''}{had}, expected {wanted}"
    differences = (_difference(mine[key], theirs[key], f"{path}[{key!r}]") for key in theirs)
    return next((difference for difference in differences if difference), None)


def _entry(found: Any, expected: Any) -> tuple[str, Any, Any]:
    """Return path and both values of the first difference: contexts of caches are large."""
    keys: Sequence[Any] = ()
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        keys = list(found)
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        keys = range(len(found))
    for key in keys:
        if found[key] != expected[key]:
            at, had, wanted = _entry(found[key], expected[key])
            return f"[{key!r}]{at}", had, wanted
    return "", found, expected


def _get_children(spec: TreeSpec) -> dict[Any, TreeSpec]:
    keys: Sequence[Any] = spec.context if spec.type is dict else range(spec.num_children)
    return dict(zip(keys, spec.children(), strict=True))


def _kind(spec: TreeSpec) -> str:
    return "a value" if spec.is_leaf() else f"a {spec.type.__name__}"


def _describe_children(children: dict[Any, TreeSpec]) -> str:
    if all(isinstance(key, int) for key in children):
        return f"{len(children)} items"
    return f"keys {sorted(map(str, children))}"
