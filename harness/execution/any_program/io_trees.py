"""Parse the trees of a method's inputs and outputs from its program.

A program stores the trees of the export as text (``ContainerMetadata``), in the format of
``torch.utils._pytree.treespec_dumps``. This parser replaces torch's, which imports classes by the
names in the text. Children of nodes other than tuples, lists and dicts have numbers as keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import InputError


@dataclass(frozen=True)
class IOTree:
    """A leaf, or a node with children.

    Attributes:
        kind: ``leaf``, ``tuple``, ``list``, ``dict``, or the name of another class.
        keys: keys of the children, in order.
        children: the child trees.
    """

    kind: str
    keys: tuple[str | int, ...] = ()
    children: tuple[IOTree, ...] = ()

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def paths(self, at: str = "") -> Iterator[str]:
        """Yield the path of each leaf in order, such as ``[0]['mask']``."""
        if self.kind == "leaf":
            yield at
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{at}[{key!r}]")

    def flatten(self, value: Any, at: str) -> list[Any]:
        """Return the leaves of a value that has this tree's structure, in the tree's order.

        Args:
            value: a nested value; tuples and lists are interchangeable.
            at: its path, for error messages.

        Raises:
            InputError: the value has another structure.
        """
        if self.kind == "leaf":
            return [value]
        is_dict = self.kind == "dict"
        if not isinstance(value, (dict,) if is_dict else (list, tuple)):
            raise InputError(f"{at} is a {type(value).__name__}; the program takes a {self.kind}")
        items: dict[Any, Any] = value if isinstance(value, dict) else dict(enumerate(value))
        if items.keys() != set(self.keys):
            has, wanted = (
                f"the keys {list(keys)}" if is_dict else f"{len(keys)} items"
                for keys in (items, self.keys)
            )
            raise InputError(f"{at} has {has}; the program takes {wanted}")
        return [
            leaf
            for key, child in zip(self.keys, self.children, strict=True)
            for leaf in child.flatten(items[key], f"{at}[{key!r}]")
        ]


def parse_tree(text: str | None) -> IOTree | None:
    """Parse a tree; return None if the text is empty or has another format."""
    try:
        version, spec = json.loads(text or "")
        return _tree(spec) if version == 1 else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _tree(spec: Any) -> IOTree:
    if spec["type"] is None:
        return IOTree("leaf")
    children = tuple(map(_tree, spec["children_spec"]))
    kind = spec["type"].removeprefix("builtins.")
    keys: Sequence[str | int] = range(len(children))
    if kind == "dict":
        keys = json.loads(spec["context"])
        if len(keys) != len(children) or not all(isinstance(key, str | int) for key in keys):
            raise ValueError("keys and children do not go together")
    return IOTree(kind, tuple(keys), children)
