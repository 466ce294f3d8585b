"""Flatten the inputs of a method into its order and check them against its declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from executorch.exir import schema

from harness.errors import InputError
from harness.execution.any_program import io_trees
from harness.execution.program import Program, TensorSpec
from harness.model.case import Inputs
from harness.vendors.torch import tree_leaves


def list_input_names(plan: schema.ExecutionPlan) -> list[str]:
    """Return a display name for each input: its keyword or path; empty for positional ones."""
    wanted = _parse_input_tree(plan)
    if wanted is None:
        return [""] * len(plan.inputs)
    positional, named = wanted.children
    return [
        *("" if path == f"[{at}]" else path for at, path in enumerate(positional.paths())),
        *(
            f"{key}{path}"
            for key, child in zip(named.keys, named.children, strict=True)
            for path in child.paths()
        ),
    ]


def list_output_names(plan: schema.ExecutionPlan) -> list[str]:
    """Return a display name for each output: its path, ``changed input``, or an empty string."""
    found = io_trees.parse_tree(
        plan.container_meta_type and plan.container_meta_type.encoded_out_str
    )
    changed = len(plan.outputs) - found.leaves if found else -1
    if found is None or changed < 0:
        return [""] * len(plan.outputs)
    return ["changed input"] * changed + list(found.paths())


def flatten_inputs(
    program: Program, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Inputs:
    """Flatten the inputs of one call into the order of the program, and check them.

    Args:
        program: the program that gets the inputs.
        args: positional inputs, nested as in the export; or all inputs of the program, flat.
        kwargs: keyword inputs.

    Raises:
        InputError: names an input that does not fit, and the expected value.
    """
    wanted, kwargs = _parse_input_tree(program.plan), dict(kwargs or {})
    flat = list(args)
    is_flat = len(flat) == len(program.plan.inputs) and not any(map(_is_nested, flat))
    if kwargs or not is_flat:
        if wanted is None:
            if kwargs:
                name = next(iter(kwargs))
                raise InputError(
                    f"an input is named {name!r}; this program does not say how its inputs are "
                    f"named, give them in order"
                )
            flat = tree_leaves(list(args))
        else:
            flat = _flatten(wanted, args, kwargs)
    check_inputs(program, flat)
    return tuple(flat)


def check_inputs(program: Program, values: Sequence[Any]) -> None:
    """Check flat inputs against the program's declarations.

    Raises:
        InputError: names the first input that does not fit, and the expected value.
    """
    plan = program.plan
    if len(values) != len(plan.inputs):
        raise InputError(
            f"{_count(len(values), 'input')} given, the program takes {len(plan.inputs)}: "
            f"{', '.join(map(str, describe_inputs(program))) or 'none'}"
        )
    rows = zip(values, list_input_names(plan), plan.inputs, program.inputs, strict=True)
    for number, (value, name, index, spec) in enumerate(rows):
        if problem := _find_problem(value, spec, plan.values[index].val):
            raise InputError(f"input {number}{f' ({name})' if name else ''} is {problem}")


def describe_inputs(program: Program) -> list[str]:
    """Describe the expected value of each input."""
    plan = program.plan
    return [
        format_spec(spec) if spec else f"the {_format_fixed_value(plan.values[index].val)}"
        for spec, index in zip(program.inputs, plan.inputs, strict=True)
    ]


def format_spec(spec: TensorSpec) -> str:
    """Format a tensor's declaration: ``float32 (2, 3)``, with ``at most`` for dynamic shapes."""
    dtype = str(spec.dtype).removeprefix("torch.")
    return f"{dtype} {'at most ' if spec.is_dynamic else ''}{spec.sizes}"


def generate_inputs(program: Program, seed: int) -> Inputs:
    """Generate inputs of the declared dtypes and largest shapes.

    Floats are normally distributed, integers are 0 or 1. An input number that the program fixes has
    that value.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(spec: TensorSpec) -> torch.Tensor:
        if spec.dtype.is_floating_point or spec.dtype.is_complex:
            wide = torch.complex64 if spec.dtype.is_complex else torch.float32
            return torch.randn(spec.sizes, generator=generator, dtype=wide).to(spec.dtype)
        return torch.randint(2, spec.sizes, generator=generator).to(spec.dtype)

    return tuple(
        draw(spec) if spec else get_fixed_value(program.plan.values[index].val)
        for spec, index in zip(program.inputs, program.plan.inputs, strict=True)
    )


def _parse_input_tree(plan: schema.ExecutionPlan) -> io_trees.IOTree | None:
    """Return the tree of (positional inputs, keyword inputs); None if it does not fit the plan."""
    found = io_trees.parse_tree(
        plan.container_meta_type and plan.container_meta_type.encoded_inp_str
    )
    if found is None or found.leaves != len(plan.inputs):
        return None
    is_call = [child.kind for child in found.children] == ["tuple", "dict"]
    named = is_call and all(isinstance(key, str) for key in found.children[1].keys)
    return found if named else None


def _flatten(wanted: io_trees.IOTree, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    positional, named = wanted.children
    if strange := [name for name in kwargs if name not in named.keys]:
        raise InputError(
            f"an input is named {strange[0]!r}; the program takes {list(named.keys) or 'none'} by "
            f"name and {len(positional.keys)} in order"
        )
    if len(args) != len(positional.keys):
        raise InputError(
            f"{_count(len(args), 'input')} given in order, the program takes "
            f"{len(positional.keys)}{f' and {list(named.keys)} by name' if named.keys else ''}"
        )
    if missing := [name for name in named.keys if name not in kwargs]:
        raise InputError(f"no input is named {missing[0]!r}, which the program takes by name")
    flat = [
        leaf
        for number, (value, child) in enumerate(zip(args, positional.children, strict=True))
        for leaf in child.flatten(value, f"input {number}")
    ]
    for key, child in zip(named.keys, named.children, strict=True):
        flat += child.flatten(kwargs[str(key)], f"input {key}")
    return flat


def _find_problem(value: Any, spec: TensorSpec | None, declaration: Any) -> str:
    """Describe the problem of an input; empty if it fits."""
    if spec is None:
        wanted = get_fixed_value(declaration)
        if type(value) is type(wanted) and value == wanted:
            return ""
        only = _format_fixed_value(declaration)
        return f"{_format_value(value)}; the program takes the {only} alone"
    if not isinstance(value, torch.Tensor):
        return f"{_format_value(value)}; the program takes {format_spec(spec)}"
    fits = value.dim() == len(spec.sizes) and all(
        size <= limit if spec.is_dynamic else size == limit
        for size, limit in zip(value.shape, spec.sizes, strict=True)
    )
    if fits and value.dtype == spec.dtype and value.layout == torch.strided:
        return ""
    return f"{_format_value(value)}; the program takes {format_spec(spec)}"


def _format_value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        layout = "" if value.layout == torch.strided else f"{value.layout} ".removeprefix("torch.")
        return f"{layout}{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return f"the {type(value).__name__} {value!r}" if value is not None else "None"


def get_fixed_value(value: Any) -> Any:
    """Return the number or text that a plan declares as an input."""
    match value:
        case schema.Int(int_val=number) | schema.Bool(bool_val=number):
            return number
        case schema.Double(double_val=number):
            return float(number)
        case schema.String(string_val=text):
            return text
    return None


def _format_fixed_value(value: Any) -> str:
    number = get_fixed_value(value)
    return "value None" if number is None else f"{type(number).__name__} {number!r}"


def _is_nested(value: Any) -> bool:
    return isinstance(value, list | tuple | dict)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'} {'is' if number == 1 else 'are'}"
