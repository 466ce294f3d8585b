"""Validate a decoded MLX program before it runs.

The checks: slots and chains are in range, chains end, and each node's fields follow the rules of
the delegate's runtime and of MLX. Rules that depend on a tensor's actual shape are checked during
execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from backends.mlx.payload.graph import MlxGraph, Node, PayloadError, Tid, Vid

# Bytes of an element by ScalarType number: the dtypes of resolve_dtype in MLXExecutor.h.
ITEM_SIZES: Mapping[int, int] = {
    **dict.fromkeys((0, 1, 11), 1),  # Byte Char Bool
    **dict.fromkeys((2, 5, 15), 2),  # Short Half BFloat16
    **dict.fromkeys((3, 6, 28), 4),  # Int Float UInt32
    4: 8,  # Long
}

# kMaxAllocationBytes in MLXExecutor.h: largest tensor that a payload may request.
MAX_ALLOCATION_BYTES = 4 * 2**30

# Nesting of chains, limited as flatbuffers' verifier limits tables (max_depth in verifier.h):
# run_chain in MLXInterpreter.h recurses without a limit.
MAX_NESTING = 64

# Instructions of a call, with the body of a scan counted once. load_program's kMaxCollectionSize
# limits one chain only, and a chain can run another one twice.
MAX_INSTRUCTIONS = 1_000_000


class NodeRule(NamedTuple):
    """A rule for some fields of a node; ``problem`` returns the violation or None."""

    fields: tuple[str, ...]
    problem: Callable[[Node], str | None]


def check_graph(graph: MlxGraph) -> None:
    """Validate the chains and instructions of a program.

    Raises:
        PayloadError: a rule is violated; the message names chain, instruction and field.
    """
    calls = _find_chain_calls(graph)
    _check_nesting(calls, [len(chain) for chain in graph.chains])
    at_every_call = _find_reached_chains(calls, graph.main)
    for number, chain in enumerate(graph.chains):
        writable = number not in at_every_call
        for place, node in enumerate(chain):
            problem = _check_slots(graph, node) or _check_writes(graph, node, writable)
            for rule in get_rules(node.kind):
                problem = problem or rule.problem(node)
            if problem or (problem := _check_types(node)):
                raise _make_error(number, place, node, problem)


def _check_nesting(calls: list[list[list[int]]], lengths: list[int]) -> None:
    """Check that no chain runs itself, and that nesting and instruction counts are limited."""
    inner = [[chain for choice in choices for chain in choice] for choices in calls]
    depth: dict[int, int] = {}
    total: dict[int, int] = {}
    for start in range(len(calls)):
        entered: set[int] = set()
        todo = [start]
        while todo:
            chain = todo[-1]
            if chain in depth:
                todo.pop()
            elif chain not in entered:
                entered.add(chain)
                if again := [number for number in inner[chain] if number in entered]:
                    raise PayloadError(f"chain {again[0]} runs itself")
                todo += [number for number in inner[chain] if number not in depth]
            else:
                todo.pop()
                entered.remove(chain)
                depth[chain] = 1 + max((depth[number] for number in inner[chain]), default=0)
                total[chain] = lengths[chain] + sum(
                    max(total[number] for number in choice) for choice in calls[chain]
                )
                if depth[chain] > MAX_NESTING:
                    raise PayloadError(
                        f"chain {chain} nests chains more than {MAX_NESTING} levels deep"
                    )
                if total[chain] > MAX_INSTRUCTIONS:
                    raise PayloadError(
                        f"chain {chain} runs more than {MAX_INSTRUCTIONS} instructions"
                    )


def _find_chain_calls(graph: MlxGraph) -> list[list[list[int]]]:
    """For each chain, for each of its instructions that run chains, list these chains.

    Raises:
        PayloadError: one of the chains does not exist.
    """
    calls = []
    for number, chain in enumerate(graph.chains):
        choices = []
        for place, node in enumerate(chain):
            for inner in (choice := node.chains):
                if not 0 <= inner < len(graph.chains):
                    raise _make_error(
                        number, place, node, f"runs chain {inner}, there are {len(graph.chains)}"
                    )
            if choice:
                choices.append(choice)
        calls.append(choices)
    return calls


def _find_reached_chains(calls: list[list[list[int]]], start: int) -> set[int]:
    reached, todo = {start}, [start]
    while todo:
        found = {chain for choice in calls[todo.pop()] for chain in choice} - reached
        reached |= found
        todo.extend(found)
    return reached


def _make_error(chain: int, place: int, node: Node, problem: str) -> PayloadError:
    return PayloadError(f"chain {chain}, instruction {place} ({node.kind}): {problem}")


def _check_slots(graph: MlxGraph, node: Node) -> str | None:
    tensors, values = graph.tensors, graph.values
    for name, value in vars(node).items():
        for item in value if type(value) is list else (value,):
            if type(item) is Tid and item >= tensors:
                return f"field {name} refers to tensor slot {int(item)}, there are {tensors}"
            if type(item) is Vid and item >= values:
                return f"field {name} refers to value slot {int(item)}, there are {values}"
    return None


def _check_writes(graph: MlxGraph, node: Node, writable: bool) -> str | None:
    """Check writes to constants: ``set_tensor`` allows them in the init chain, ``tensor_ref`` none.

    Args:
        graph: the program.
        node: the instruction.
        writable: whether only the init chain runs the instruction.
    """
    if not graph.constants:
        return None
    if getattr(node, "dst", graph.constants) < graph.constants:
        return f"field dst is tensor slot {int(node.dst)}, a constant"
    if not writable and (slots := [slot for slot in node.writes if slot < graph.constants]):
        return (
            f"writes tensor slot {int(slots[0])}, a constant; only the init chain may write "
            f"constants"
        )
    return None


def _check_types(node: Node) -> str | None:
    """Check scalar types as ``resolve_dtype`` in MLXExecutor.h does."""
    for name in ("scalar_type", "dtype", "out_dtype"):
        number = getattr(node, name, None)
        if number is not None and number not in ITEM_SIZES:
            return f"field {name} is scalar type {number}, which does not exist in MLX"
    return None


def get_rules(kind: str) -> tuple[NodeRule, ...]:
    """Return the rules for the fields of a node type."""
    return _RULES.get(kind, ())


def _require_at_least(least: int, *prefixes: str) -> NodeRule:
    """Require a minimum of every field whose name begins with one of the prefixes."""

    def rule(node: Node) -> str | None:
        for name, value in vars(node).items():
            if name.startswith(prefixes) and value < least:
                return f"field {name} is {value}, expected {least} at least"
        return None

    return NodeRule((), rule)


def _require_one_of(name: str, allowed: Iterable[object]) -> NodeRule:
    choices = tuple(allowed)

    def rule(node: Node) -> str | None:
        value = getattr(node, name)
        if value in choices:
            return None
        return f"field {name} is {str(value)[:40]!r}, expected {', '.join(map(str, choices))}"

    return NodeRule((name,), rule)


def _require_same_length(*names: str) -> NodeRule:
    def rule(node: Node) -> str | None:
        lengths = [len(getattr(node, name)) for name in names]
        if len(set(lengths)) == 1:
            return None
        return (
            f"fields {', '.join(names)} have {', '.join(map(str, lengths))} elements, expected "
            f"equal lengths"
        )

    return NodeRule(names, rule)


def _require_covering(longer: str, shorter: str) -> NodeRule:
    """Require at least as many elements in one field as in the other."""

    def rule(node: Node) -> str | None:
        have, need = len(getattr(node, longer)), len(getattr(node, shorter))
        if have >= need:
            return None
        return f"field {longer} has {have} elements, fewer than the {need} of field {shorter}"

    return NodeRule((longer, shorter), rule)


def _require_not_empty(*names: str) -> NodeRule:
    def rule(node: Node) -> str | None:
        empty = [name for name in names if not getattr(node, name)]
        return f"field {empty[0]} is empty" if empty else None

    return NodeRule(names, rule)


def _require_present(*names: str) -> NodeRule:
    def rule(node: Node) -> str | None:
        absent = [name for name in names if getattr(node, name) is None]
        return f"field {absent[0]} is not set" if absent else None

    return NodeRule(names, rule)


def _require_not_zero(name: str) -> NodeRule:
    def rule(node: Node) -> str | None:
        value = getattr(node, name)
        return f"field {name} is 0" if value == 0 and type(value) is not Vid else None

    return NodeRule((name,), rule)


def _require_even(name: str) -> NodeRule:
    def rule(node: Node) -> str | None:
        count = len(getattr(node, name))
        return f"field {name} has {count} elements, expected pairs" if count % 2 else None

    return NodeRule((name,), rule)


def _check_split(node: Node) -> str | None:
    """Check ``exec_split``: one size is repeated; several sizes need an output each."""
    sizes, outs = node.sizes, node.outs
    if len(sizes) > 1 and len(sizes) != len(outs):
        return (
            f"field sizes has {len(sizes)} elements, field outs {len(outs)}; expected one size, or "
            f"one for each output"
        )
    if len(sizes) == 1 and type(sizes[0]) is not Vid and sizes[0] <= 0:
        return f"field sizes is {sizes[0]}, expected 1 at least"
    return None


# Group size and bits of the block formats, as mlx.core.quantize defines its modes.
_BLOCKS = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)


def _check_quantized(node: Node) -> str | None:
    """Check the format: MLX divides by the bits, and other formats read outside the weights."""
    if node.mode in _BLOCKS:
        size, bits = _BLOCKS[node.mode]
        if (node.group_size, node.bits) != (size, bits):
            return (
                f"mode {node.mode} with {node.bits} bits in groups of {node.group_size}, expected "
                f"{bits} bits in groups of {size}"
            )
    elif node.mode != "affine":
        return f"field mode is {node.mode[:40]!r}, expected affine, {', '.join(_BLOCKS)}"
    elif node.group_size < 1 or node.bits not in _AFFINE_BITS:
        return (
            f"mode affine with {node.bits} bits in groups of {node.group_size}, expected "
            f"{', '.join(map(str, _AFFINE_BITS))} bits in groups of 1 or more"
        )
    return None


def _check_metal_kernel(node: Node) -> str | None:
    """Check ``exec_metal_kernel``: lengths of arrays that belong together, and their values."""
    if any(length < 0 for length in node.output_shape_lengths):
        return "field output_shape_lengths has a negative element"
    if len(node.output_shapes_flat) != sum(node.output_shape_lengths):
        return (
            f"field output_shapes_flat has {len(node.output_shapes_flat)} elements, "
            f"but output_shape_lengths adds up to {sum(node.output_shape_lengths)}"
        )
    for name in ("grid", "threadgroup"):
        if len(getattr(node, name)) != 3:
            return f"field {name} has {len(getattr(node, name))} elements, expected 3"
    types = list(node.output_dtypes)
    for kind, value in zip(node.template_arg_kinds, node.template_arg_values, strict=True):
        if kind not in (0, 1, 2):
            return f"field template_arg_kinds contains {kind}, expected 0 to 2"
        if kind == 2:
            types.append(value)
    if unknown := [number for number in types if number not in ITEM_SIZES]:
        return f"scalar type {unknown[0]} does not exist in MLX"
    return None


# From exec_* in MLXInterpreter.h. Groups must be positive: mlx::core divides by them unchecked.
_RULES: Mapping[str, tuple[NodeRule, ...]] = {
    **dict.fromkeys(
        (f"Conv{kind}{rank}DNode" for kind in ("", "Transpose") for rank in (1, 2, 3)),
        (_require_at_least(1, "stride", "dilation", "groups"),),
    ),
    **dict.fromkeys(
        ("QuantizedMatmulNode", "GatherQmmNode", "DequantizeNode"),
        (NodeRule(("mode", "group_size", "bits"), _check_quantized),),
    ),
    **dict.fromkeys(("ConcatenateNode", "StackNode"), (_require_not_empty("tensors"),)),
    "ARangeNode": (_require_not_zero("step"),),
    "AsStridedNode": (_require_same_length("shape", "strides"),),
    "GatherNode": (_require_same_length("indices", "axes"),),
    "MetalKernelNode": (
        _require_not_empty("inputs", "outputs"),
        _require_same_length("inputs", "input_names"),
        _require_same_length("outputs", "output_names", "output_shape_lengths", "output_dtypes"),
        _require_same_length("template_arg_names", "template_arg_kinds", "template_arg_values"),
        NodeRule(("output_shapes_flat", "grid", "threadgroup"), _check_metal_kernel),
    ),
    "PadNode": (_require_even("pad_width"), _require_one_of("mode", ("constant", "edge"))),
    "RandomBitsNode": (_require_one_of("width", (1, 2, 4)),),
    "RollNode": (_require_covering("shift", "axes"),),
    "ScanNode": (_require_not_empty("originals"), _require_same_length("originals", "sliced")),
    "SliceNode": (_require_not_zero("step"),),
    "SliceUpdateNode": (_require_at_least(1, "step"),),
    "SplitNode": (_require_not_empty("sizes", "outs"), NodeRule((), _check_split)),
    "UpdateAndAttendNode": (_require_present("layer_id", "scale"),),
}
