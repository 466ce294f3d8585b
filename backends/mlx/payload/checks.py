"""What a decoded MLX program must hold before anything of it runs.

Slots and chains in range, chains that end, and the rules that the delegate's runtime or MLX has
for the fields of a node on their own. What depends on a tensor's actual shape is left to
execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from backends.mlx.payload.graph import Graph, Node, PayloadError, Tid, Vid

# Bytes an element, by ScalarType number: the dtypes of resolve_dtype in MLXExecutor.h.
ITEM_SIZES: Mapping[int, int] = {
    **dict.fromkeys((0, 1, 11), 1),  # Byte Char Bool
    **dict.fromkeys((2, 5, 15), 2),  # Short Half BFloat16
    **dict.fromkeys((3, 6, 28), 4),  # Int Float UInt32
    4: 8,  # Long
}

# kMaxAllocationBytes in MLXExecutor.h: the bytes of one tensor that a payload asks for.
MAX_ALLOCATION_BYTES = 4 * 2**30

# Chains in chains, as flatbuffers' verifier limits tables (max_depth in verifier.h): run_chain
# in MLXInterpreter.h recurses without a limit of its own.
MAX_NESTING = 64

# Instructions of a call, the loops of a scan counted once; load_program's kMaxCollectionSize
# bounds one chain only, and chains can run others twice.
MAX_INSTRUCTIONS = 1_000_000


class Rule(NamedTuple):
    """Says what is wrong with a node, if anything, from these fields of it."""

    fields: tuple[str, ...]
    problem: Callable[[Node], str | None]


def check(graph: Graph) -> None:
    """Validate the chains and instructions of a program.

    Raises:
        PayloadError: naming chain, instruction and field.
    """
    calls = _calls(graph)
    _check_nesting(calls, [len(chain) for chain in graph.chains])
    at_every_call = _reached(calls, graph.main)
    for number, chain in enumerate(graph.chains):
        writable = number not in at_every_call
        for place, node in enumerate(chain):
            problem = _slot_problem(graph, node) or _write_problem(graph, node, writable)
            for rule in rules(node.kind):
                problem = problem or rule.problem(node)
            if problem or (problem := _type_problem(node)):
                raise _error(number, place, node, problem)


def _check_nesting(calls: list[list[list[int]]], lengths: list[int]) -> None:
    """Chains end: none runs itself, and neither depth nor number of instructions explodes."""
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
                    raise PayloadError(f"chain {chain} runs chains more than {MAX_NESTING} deep")
                if total[chain] > MAX_INSTRUCTIONS:
                    raise PayloadError(
                        f"chain {chain} runs more than {MAX_INSTRUCTIONS} instructions"
                    )


def _calls(graph: Graph) -> list[list[list[int]]]:
    """By chain, for each instruction that runs chains: those it may run.

    Raises:
        PayloadError: one of them does not exist.
    """
    calls = []
    for number, chain in enumerate(graph.chains):
        choices = []
        for place, node in enumerate(chain):
            for inner in (choice := node.chains):
                if not 0 <= inner < len(graph.chains):
                    raise _error(
                        number, place, node, f"runs chain {inner}, there are {len(graph.chains)}"
                    )
            if choice:
                choices.append(choice)
        calls.append(choices)
    return calls


def _reached(calls: list[list[list[int]]], start: int) -> set[int]:
    reached, todo = {start}, [start]
    while todo:
        found = {chain for choice in calls[todo.pop()] for chain in choice} - reached
        reached |= found
        todo.extend(found)
    return reached


def _error(chain: int, place: int, node: Node, problem: str) -> PayloadError:
    return PayloadError(f"chain {chain}, instruction {place} ({node.kind}): {problem}")


def _slot_problem(graph: Graph, node: Node) -> str | None:
    tensors, values = graph.tensors, graph.values
    for name, value in vars(node).items():
        for item in value if type(value) is list else (value,):
            if type(item) is Tid and item >= tensors:
                return f"field {name} refers to tensor slot {int(item)}, there are {tensors}"
            if type(item) is Vid and item >= values:
                return f"field {name} refers to value slot {int(item)}, there are {values}"
    return None


def _write_problem(graph: Graph, node: Node, writable: bool) -> str | None:
    """``set_tensor`` lets the init chain alone replace constants, ``tensor_ref`` nothing."""
    if not graph.constants:
        return None
    if getattr(node, "dst", graph.constants) < graph.constants:
        return f"field dst is tensor slot {int(node.dst)}, a constant"
    if not writable and (slots := [slot for slot in node.writes if slot < graph.constants]):
        return f"writes tensor slot {int(slots[0])}, a constant, in a chain that calls run"
    return None


def _type_problem(node: Node) -> str | None:
    """``resolve_dtype`` in MLXExecutor.h, wherever a node names a scalar type."""
    for name in ("scalar_type", "dtype", "out_dtype"):
        number = getattr(node, name, None)
        if number is not None and number not in ITEM_SIZES:
            return f"field {name} is scalar type {number}, which MLX lacks"
    return None


def rules(kind: str) -> tuple[Rule, ...]:
    """The rules for the fields of a node type."""
    return _RULES.get(kind, ())


def _at_least(least: int, *prefixes: str) -> Rule:
    """Every field of such a name is so large at least."""

    def rule(node: Node) -> str | None:
        for name, value in vars(node).items():
            if name.startswith(prefixes) and value < least:
                return f"field {name} is {value}, expected {least} at least"
        return None

    return Rule((), rule)


def _one_of(name: str, allowed: Iterable[object]) -> Rule:
    choices = tuple(allowed)

    def rule(node: Node) -> str | None:
        value = getattr(node, name)
        if value in choices:
            return None
        return f"field {name} is {str(value)[:40]!r}, expected {', '.join(map(str, choices))}"

    return Rule((name,), rule)


def _same_length(*names: str) -> Rule:
    def rule(node: Node) -> str | None:
        lengths = [len(getattr(node, name)) for name in names]
        if len(set(lengths)) == 1:
            return None
        return f"fields {', '.join(names)} have {', '.join(map(str, lengths))} elements"

    return Rule(names, rule)


def _reaches(longer: str, shorter: str) -> Rule:
    """An element of one for each of the other; more of them are not read."""

    def rule(node: Node) -> str | None:
        have, need = len(getattr(node, longer)), len(getattr(node, shorter))
        if have >= need:
            return None
        return f"field {longer} has {have} elements, field {shorter} {need}"

    return Rule((longer, shorter), rule)


def _not_empty(*names: str) -> Rule:
    def rule(node: Node) -> str | None:
        empty = [name for name in names if not getattr(node, name)]
        return f"field {empty[0]} is empty" if empty else None

    return Rule(names, rule)


def _present(*names: str) -> Rule:
    def rule(node: Node) -> str | None:
        absent = [name for name in names if getattr(node, name) is None]
        return f"field {absent[0]} is not set" if absent else None

    return Rule(names, rule)


def _not_zero(name: str) -> Rule:
    def rule(node: Node) -> str | None:
        value = getattr(node, name)
        return f"field {name} is 0" if value == 0 and type(value) is not Vid else None

    return Rule((name,), rule)


def _even(name: str) -> Rule:
    def rule(node: Node) -> str | None:
        count = len(getattr(node, name))
        return f"field {name} has {count} elements, expected pairs" if count % 2 else None

    return Rule((name,), rule)


def _split(node: Node) -> str | None:
    """One size is repeated (``exec_split``), several give an output each."""
    sizes, outs = node.sizes, node.outs
    if len(sizes) > 1 and len(sizes) != len(outs):
        return f"field sizes has {len(sizes)} elements, field outs {len(outs)}"
    if len(sizes) == 1 and type(sizes[0]) is not Vid and sizes[0] <= 0:
        return f"field sizes is {sizes[0]}, expected 1 at least"
    return None


# Group size and bits of the block formats, as mlx.core.quantize defines its modes.
_BLOCKS = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)


def _quantized(node: Node) -> str | None:
    """MLX divides by the bits; of other formats its kernels would read beside the weights."""
    given = node.group_size, node.bits
    if node.mode in _BLOCKS:
        size, bits = _BLOCKS[node.mode]
        if given != (size, bits):
            return f"mode {node.mode} with {given[1]} bits in groups of {given[0]}"
    elif node.mode != "affine":
        return f"field mode is {node.mode[:40]!r}, expected affine, {', '.join(_BLOCKS)}"
    elif node.group_size < 1 or node.bits not in _AFFINE_BITS:
        return f"mode affine with {given[1]} bits in groups of {given[0]}"
    return None


def _metal_kernel(node: Node) -> str | None:
    """``exec_metal_kernel``: arrays that go together, and what they hold."""
    if any(length < 0 for length in node.output_shape_lengths):
        return "field output_shape_lengths has a negative element"
    if len(node.output_shapes_flat) != sum(node.output_shape_lengths):
        return (
            f"field output_shapes_flat has {len(node.output_shapes_flat)} elements, "
            f"output_shape_lengths adds up to {sum(node.output_shape_lengths)}"
        )
    for name in ("grid", "threadgroup"):
        if len(getattr(node, name)) != 3:
            return f"field {name} has {len(getattr(node, name))} elements, expected 3"
    types = list(node.output_dtypes)
    for kind, value in zip(node.template_arg_kinds, node.template_arg_values, strict=True):
        if kind not in (0, 1, 2):
            return f"field template_arg_kinds has {kind}, expected 0 to 2"
        if kind == 2:
            types.append(value)
    if unknown := [number for number in types if number not in ITEM_SIZES]:
        return f"names scalar type {unknown[0]}, which MLX lacks"
    return None


# By exec_* in MLXInterpreter.h; positive groups, because mlx::core divides by them unchecked.
_RULES: Mapping[str, tuple[Rule, ...]] = {
    **dict.fromkeys(
        (f"Conv{kind}{rank}DNode" for kind in ("", "Transpose") for rank in (1, 2, 3)),
        (_at_least(1, "stride", "dilation", "groups"),),
    ),
    **dict.fromkeys(
        ("QuantizedMatmulNode", "GatherQmmNode", "DequantizeNode"),
        (Rule(("mode", "group_size", "bits"), _quantized),),
    ),
    **dict.fromkeys(("ConcatenateNode", "StackNode"), (_not_empty("tensors"),)),
    "ARangeNode": (_not_zero("step"),),
    "AsStridedNode": (_same_length("shape", "strides"),),
    "GatherNode": (_same_length("indices", "axes"),),
    "MetalKernelNode": (
        _not_empty("inputs", "outputs"),
        _same_length("inputs", "input_names"),
        _same_length("outputs", "output_names", "output_shape_lengths", "output_dtypes"),
        _same_length("template_arg_names", "template_arg_kinds", "template_arg_values"),
        Rule(("output_shapes_flat", "grid", "threadgroup"), _metal_kernel),
    ),
    "PadNode": (_even("pad_width"), _one_of("mode", ("constant", "edge"))),
    "RandomBitsNode": (_one_of("width", (1, 2, 4)),),
    "RollNode": (_reaches("shift", "axes"),),
    "ScanNode": (_not_empty("originals"), _same_length("originals", "sliced")),
    "SliceNode": (_not_zero("step"),),
    "SliceUpdateNode": (_at_least(1, "step"),),
    "SplitNode": (_not_empty("sizes", "outs"), Rule((), _split)),
    "UpdateAndAttendNode": (_present("layer_id", "scale"),),
}
