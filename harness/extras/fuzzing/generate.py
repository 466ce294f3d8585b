"""Builds a program from choices: each rule adds one statement over the existing values, or none.

Rules get small integers, the choices of hypothesis, and use them modulo the number of options. So
any list of integers is a program, and a shorter list of smaller numbers is a simpler one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from harness.extras.fuzzing.generated_program import ROWS, GeneratedProgram, format_input, is_layer

MAX_ELEMENTS = 400
MAX_VALUE = 1e4
_OUTPUTS = 4

_INPUT_FORMS = (
    ("float32", (2, 3)), ("int64", (2, 3)), ("float32", (3,)), ("bool", (2, 3)),
    ("float32", (2, 3, 4)), ("int32", (3,)), ("float32", ()), ("float32", (4, 4)),
    ("int64", (1, 3)), ("float32", (1, 2, 4, 4)),
)  # fmt: skip

StepChoice = tuple[int, int, int, int]
"""A rule, and three choices for it."""


@dataclass
class ProgramBuilder:
    """A program that is being built, with its values for one set of inputs.

    Attributes:
        inputs: expressions that create the inputs.
        is_dynamic: whether the first input has a dynamic dimension.
        may_draw: whether random numbers may be drawn.
    """

    inputs: list[str]
    is_dynamic: bool
    may_draw: bool
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    holder: SimpleNamespace = field(default_factory=SimpleNamespace)
    draws: bool = False

    def __post_init__(self) -> None:
        for index, made in enumerate(self.inputs):
            self.values[f"x{index}"] = eval(made, {"torch": torch})

    def pick(self, choice: int, fits: Callable[[torch.Tensor], bool] = lambda _: True) -> str:
        """Return the name of a value that fits; choice 0 is the newest.

        Raises:
            NoSuitableValue: there is none.
        """
        names = [name for name, value in reversed(self.values.items()) if fits(value)]
        if not names:
            raise NoSuitableValue
        return names[choice % len(names)]

    def constant(self, made: str) -> str:
        """Add a buffer, or a layer, and return the expression that reads it."""
        name = f"{'layer' if is_layer(made) else 'b'}{len(self.state)}"
        self.state[name] = made
        setattr(self.holder, name, eval(made, {"torch": torch}))
        return f"self.{name}"

    def add_step(self, choice: StepChoice) -> None:
        """Let a rule add a statement.

        Nothing is added where the rule has none, PyTorch refuses it, or a value is too large or
        empty.
        """
        rule, *numbers = choice
        kept = dict(self.state)
        try:
            made = RULES[rule % len(RULES)](self, *numbers)
        except NoSuitableValue:
            return
        name = f"v{len(self.steps)}"
        step = made if made.startswith("self.b") else f"{name} = {made}"
        values, holder = copy.deepcopy(
            (self.values, self.holder)
        )  # one call keeps shared memory shared
        scope: dict[str, Any] = {**values, "torch": torch, "self": holder}
        try:
            exec(step, scope)
        except Exception:  # PyTorch refuses the statement
            self.state = kept
            return
        found = {key: value for key, value in scope.items() if isinstance(value, torch.Tensor)}
        everything = [*found.values(), *vars(holder).values()]
        if isinstance(scope.get(name, holder), (torch.Tensor, SimpleNamespace)) and all(
            map(_is_acceptable, everything)
        ):
            self.values, self.holder = found, holder
            self.steps.append(step)
            self.draws = self.draws or "torch.rand" in step
        else:
            self.state = kept

    def build(self) -> GeneratedProgram | None:
        """Return the program; None if it does nothing."""
        names = [name for name in self.values if name.startswith("v")]
        used = [
            name
            for name in names
            if any(
                re.search(rf"\b{name}\b", step) and not step.startswith(f"{name} =")
                for step in self.steps
            )
        ]
        returns = [name for name in names if name not in used][-_OUTPUTS:] or names[-1:]
        if not returns:
            returns = ["x0"] if self.steps else []
        if not returns:
            return None
        return GeneratedProgram(
            tuple(self.inputs),
            tuple(self.state.items()),
            tuple(self.steps),
            tuple(returns),
            self.is_dynamic and any(f"({ROWS}" in made for made in self.inputs),
            self.draws,
        )


class NoSuitableValue(Exception):
    """A rule has no value to work on."""


def _is_acceptable(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    if value.numel() == 0 or value.numel() > MAX_ELEMENTS or value.is_complex():
        return False
    return bool(value.double().abs().max() < MAX_VALUE)  # and no NaN


def build_program(
    forms: Sequence[int],
    choices: Sequence[StepChoice],
    *,
    is_dynamic: bool = False,
    may_draw: bool = False,
) -> GeneratedProgram | None:
    """Build the program of some choices.

    Args:
        forms: dtype and shape of its inputs, as indices.
        choices: the steps to add.
        is_dynamic: make the first dimension of its first input dynamic.
        may_draw: let it draw random numbers.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        inputs = []
        for form in forms:
            dtype, shape = _INPUT_FORMS[form % len(_INPUT_FORMS)]
            inputs.append(
                format_input(dtype, (ROWS, *shape[1:]) if is_dynamic and shape else shape)
            )
        builder = ProgramBuilder(inputs, is_dynamic, may_draw)
        for choice in choices:
            builder.add_step(choice)
        return builder.build()


def _is_float(value: torch.Tensor) -> bool:
    return value.is_floating_point()


def _one_of(texts: Sequence[str], choice: int) -> str:
    return texts[choice % len(texts)]


_UNARY = (
    "torch.neg({})", "torch.exp({})", "torch.sin({})", "torch.tanh({})", "torch.abs({})",
    "torch.sigmoid({})", "torch.relu({})", "torch.sqrt(torch.abs({}))", "torch.square({})",
    "torch.nn.functional.gelu({})", "torch.nn.functional.silu({})", "torch.floor({})",
    "torch.log1p(torch.abs({}))", "torch.reciprocal({})", "torch.rsqrt(torch.abs({}) + 0.5)",
)  # fmt: skip
_BINARY = (
    "{} + {}", "{} * {}", "{} - {}", "torch.maximum({}, {})", "torch.minimum({}, {})", "{} / {}",
    "{} > {}", "{} == {}", "torch.add({}, {}, alpha=2)",
)  # fmt: skip
_SCALARS = ("1", "2.0", "0.5", "True", "-1", "0.1", "3", "-0.0", "1.0", "0")
_WITH_SCALAR = (
    "{} + {}", "{} * {}", "{} - {}", "{1} - {0}", "{} / {}", "torch.clamp({}, max={})", "{} > {}",
    "{} == {}",
)  # fmt: skip
_VIEWS = (
    "{}[1:]", "{}.transpose(0, -1)", "{}[..., ::2]", "{}.reshape(-1)", "{}.unsqueeze(0)",
    "{}[..., 1:]", "{}.squeeze()", "{}[0]", "{}.unsqueeze(-1)", "{}[..., -1]", "{}.flatten(1)",
    "{}.permute(*range({}.dim())[::-1])", "{}.unsqueeze(0).expand(2, *[-1] * {}.dim())",
    "{}.clone()", "{}.contiguous()", "{}.chunk(2, -1)[1]", "{}.flip(0)", "{}.detach()",
)  # fmt: skip
_REDUCTIONS = (
    "{}.sum(-1)", "{}.mean(-1, keepdim=True)", "{}.amax(0)", "{}.sum()", "{}.cumsum(0)",
    "torch.softmax({}, -1)", "torch.log_softmax({}, 0)", "{}.var(-1)", "{}.amin(-1, keepdim=True)",
    "torch.nn.functional.layer_norm({}, {}.shape[-1:])", "{}.any(-1)", "{}.argmax(-1)",
)  # fmt: skip
_IN_PLACE = (
    "{}.add_({})", "{}.mul_({})", "{}.copy_({})", "{}[..., :1].add_({})", "{}[0].sub_({})",
    "{}.clamp_(max=0.5) + {}",
)  # fmt: skip
_CASTS = ("{}.float()", "{}.long()", "{} != 0", "{}.to(torch.int32)", "{}.double().float()")


def _unary(builder: ProgramBuilder, a: int, b: int, _: int) -> str:
    return _one_of(_UNARY, b).format(builder.pick(a, _is_float))


def _binary(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    return _one_of(_BINARY, c).format(builder.pick(a), builder.pick(b))


def _with_scalar(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    return _one_of(_WITH_SCALAR, b).format(builder.pick(a), _one_of(_SCALARS, c))


def _scaled(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    """An operator with a number argument; arguments of Python operators become tensors."""
    ops = ("mul.Scalar", "add.Scalar", "sub.Scalar", "div.Scalar", "mul.Scalar")
    value = builder.pick(a, lambda value: b % 2 == 0 or not _is_float(value))
    return f"torch.ops.aten.{_one_of(ops, a + c)}({value}, {_one_of(_SCALARS, c)})"


def _view(builder: ProgramBuilder, a: int, b: int, _: int) -> str:
    return _one_of(_VIEWS, b).replace("{}", builder.pick(a, lambda value: value.dim() > 0))


def _reduction(builder: ProgramBuilder, a: int, b: int, _: int) -> str:
    return _one_of(_REDUCTIONS, b).replace("{}", builder.pick(a, lambda value: value.dim() > 0))


def _in_place(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    return _one_of(_IN_PLACE, c).format(builder.pick(a), builder.pick(b))


def _cast(builder: ProgramBuilder, a: int, b: int, _: int) -> str:
    return _one_of(_CASTS, b).format(builder.pick(a))


def _matmul(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    left = builder.pick(a, lambda value: _is_float(value) and value.dim() >= 2)
    wide = builder.values[left].shape[-1]
    if c % 3 == 0:
        return f"torch.nn.functional.linear({left}, {builder.constant(f'torch.randn(4, {wide})')})"
    if c % 3 == 1:
        return f"{left} @ {left}.mT"
    right = builder.pick(b, lambda value: _is_float(value) and value.dim() >= 2)
    return f"{left} @ {right}"


def _attention(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    query = builder.pick(a, lambda value: _is_float(value) and value.dim() == 4)
    key = builder.pick(b, lambda value: _is_float(value) and value.dim() == 4)
    mask = ("", ", is_causal=True", ", scale=0.5")[c % 3]
    return f"torch.nn.functional.scaled_dot_product_attention({query}, {key}, {key}{mask})"


def _joined(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    left, right = builder.pick(a), builder.pick(b)
    return _one_of(
        ("torch.cat([{0}, {1}], -1)", "torch.stack([{0}, {1}])", "torch.cat([{0}, {0}])",
         "torch.where({0} > 0, {0}, {1})"), c
    ).format(left, right)  # fmt: skip


def _constant(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    value = builder.pick(a)
    made = format_input("float32", tuple(builder.values[value].shape[-1:]) if b % 2 else ())
    return _one_of(("{} * {}", "{} + {}", "torch.maximum({}, {})"), c).format(
        value, builder.constant(made)
    )


def _buffer(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    names = [name for name, made in builder.state.items() if not is_layer(made)]
    if b % 3 == 0 or not names:
        value = builder.pick(a, lambda value: _is_float(value) and value.shape[:1] != (ROWS,))
        made = f"torch.zeros({tuple(builder.values[value].shape)})"
        buffer = builder.constant(made)
        return _one_of(("{}.add_({})", "{}.copy_({})", "{}.mul_(0.5).add_({})"), c).format(
            buffer, value
        )
    return f"torch.mul(self.{names[a % len(names)]}, 2.0)"


def _layer(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    """Call a layer: a new one, or one that the program has already called."""
    value = builder.pick(a, lambda value: _is_float(value) and value.dim() > 0)
    shape = builder.values[value].shape
    made = f"torch.nn.Linear({shape[-1]}, {(4, shape[-1])[b % 2]})"
    if c % 4 == 1 and len(shape) in (3, 4):
        made = f"torch.nn.Conv{len(shape) - 2}d({shape[1]}, 4, 3, padding=1)"
    elif c % 4 == 2:
        made = f"torch.nn.LayerNorm({shape[-1]})"
    known = [name for name, other in builder.state.items() if other == made]
    layer = f"self.{known[0]}" if c % 4 == 3 and known else builder.constant(made)
    return f"{layer}({value})"


def _random(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    if not builder.may_draw:
        raise NoSuitableValue
    shape = ("2, 3", "3", "1, 3")[a % 3]
    return f"{('torch.rand', 'torch.randn')[b % 2]}({shape})"


def _again(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    """Repeat an earlier computation."""
    made = [step.partition(" = ")[2] for step in builder.steps if step.startswith("v")]
    if not made:
        raise NoSuitableValue
    return made[::-1][a % len(made)]


def _conditional(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    value = builder.pick(a, _is_float)
    branches = ("lambda x: x * 2, lambda x: x - 1", "lambda x: x.sin(), lambda x: x + x")[b % 2]
    return f"torch.cond({value}.sum() > {c % 3 - 1}, {branches}, ({value},))"


def _nothing(builder: ProgramBuilder, a: int, b: int, c: int) -> str:
    """Add nothing; hypothesis shrinks unneeded steps to this rule."""
    raise NoSuitableValue


Rule = Callable[[ProgramBuilder, int, int, int], str]

RULES: tuple[Rule, ...] = (
    _nothing, _binary, _unary, _with_scalar, _view, _reduction, _binary, _in_place, _cast, _matmul,
    _joined, _constant, _view, _buffer, _random, _with_scalar, _unary, _attention, _conditional,
    _again, _scaled, _again, _scaled, _layer, _layer,
)  # fmt: skip
"""The rules; frequent ones are listed twice."""
