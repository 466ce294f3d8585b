"""How a program grows: each rule makes one statement over the values that are there, or none.

Rules are handed small integers, the choices of hypothesis, and take them modulo what there is: so
any list of them is a program, and a shorter one of smaller numbers a simpler one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from harness.extras.fuzzing.generated_program import ROWS, Program, made_as

MOST_ELEMENTS = 400
LARGEST = 1e4
_OUTPUTS = 4

_FORMS = (
    ("float32", (2, 3)), ("int64", (2, 3)), ("float32", (3,)), ("bool", (2, 3)),
    ("float32", (2, 3, 4)), ("int32", (3,)), ("float32", ()), ("float32", (4, 4)),
    ("int64", (1, 3)), ("float32", (1, 2, 4, 4)),
)  # fmt: skip

Gene = tuple[int, int, int, int]
"""A rule, and three choices of it."""


@dataclass
class Growing:
    """A program that is being made, and what its values are for one set of inputs.

    Attributes:
        inputs: expressions that make the inputs.
        is_dynamic: whether the first input has a dynamic dimension.
        may_draw: whether random numbers may be drawn.
    """

    inputs: list[str]
    is_dynamic: bool
    may_draw: bool
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    held: SimpleNamespace = field(default_factory=SimpleNamespace)
    draws: bool = False

    def __post_init__(self) -> None:
        for index, made in enumerate(self.inputs):
            self.values[f"x{index}"] = eval(made, {"torch": torch})

    def pick(self, choice: int, fits: Callable[[torch.Tensor], bool] = lambda _: True) -> str:
        """The name of a value that fits, the newest first.

        Raises:
            NoneFits: there is none.
        """
        names = [name for name, value in reversed(self.values.items()) if fits(value)]
        if not names:
            raise NoneFits
        return names[choice % len(names)]

    def constant(self, made: str) -> str:
        """A new buffer, as it is read."""
        name = f"b{len(self.state)}"
        self.state[name] = made
        setattr(self.held, name, eval(made, {"torch": torch}))
        return f"self.{name}"

    def add(self, gene: Gene) -> None:
        """Let a rule add a statement; nothing where it has none, or one that cannot be run or makes
        what no tame program has."""
        rule, *choices = gene
        kept = dict(self.state)
        try:
            made = RULES[rule % len(RULES)](self, *choices)
        except NoneFits:
            return
        name = f"v{len(self.steps)}"
        step = made if made.lstrip().startswith("self.") else f"{name} = {made}"
        values, held = copy.deepcopy((self.values, self.held))  # what is shared stays shared
        scope: dict[str, Any] = {**values, "torch": torch, "self": held}
        try:
            exec(step, scope)
        except Exception:  # whatever PyTorch refuses
            self.state = kept
            return
        found = {key: value for key, value in scope.items() if isinstance(value, torch.Tensor)}
        everything = [*found.values(), *vars(held).values()]
        if isinstance(scope.get(name, held), (torch.Tensor, SimpleNamespace)) and all(
            map(_is_tame, everything)
        ):
            self.values, self.held = found, held
            self.steps.append(step)
            self.draws = self.draws or "torch.rand" in step
        else:
            self.state = kept

    def program(self) -> Program | None:
        """What has grown; None where it does nothing."""
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
        return Program(
            tuple(self.inputs),
            tuple(self.state.items()),
            tuple(self.steps),
            tuple(returns),
            self.is_dynamic and any(f"({ROWS}" in made for made in self.inputs),
            self.draws,
        )


class NoneFits(Exception):
    """A rule has no value to work on."""


def _is_tame(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return True
    if value.numel() == 0 or value.numel() > MOST_ELEMENTS or value.is_complex():
        return False
    return bool(value.double().abs().max() < LARGEST)  # and no NaN


def grow(
    forms: Sequence[int], genes: Sequence[Gene], *, is_dynamic: bool = False, may_draw: bool = False
) -> Program | None:
    """The program of some choices.

    Args:
        forms: of its inputs, as indices.
        genes: what to add.
        is_dynamic: make the first dimension of its first input a dynamic one.
        may_draw: let it draw random numbers.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        inputs = []
        for form in forms:
            dtype, shape = _FORMS[form % len(_FORMS)]
            inputs.append(made_as(dtype, (ROWS, *shape[1:]) if is_dynamic and shape else shape))
        growing = Growing(inputs, is_dynamic, may_draw)
        for gene in genes:
            growing.add(gene)
        return growing.program()


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


def _unary(at: Growing, a: int, b: int, _: int) -> str:
    return _one_of(_UNARY, b).format(at.pick(a, _is_float))


def _binary(at: Growing, a: int, b: int, c: int) -> str:
    return _one_of(_BINARY, c).format(at.pick(a), at.pick(b))


def _with_scalar(at: Growing, a: int, b: int, c: int) -> str:
    return _one_of(_WITH_SCALAR, b).format(at.pick(a), _one_of(_SCALARS, c))


def _scaled(at: Growing, a: int, b: int, c: int) -> str:
    """An operator that takes a number as it is: Python's become tensors on their way."""
    ops = ("mul.Scalar", "add.Scalar", "sub.Scalar", "div.Scalar", "mul.Scalar")
    value = at.pick(a, lambda value: b % 2 == 0 or not _is_float(value))
    return f"torch.ops.aten.{_one_of(ops, a + c)}({value}, {_one_of(_SCALARS, c)})"


def _view(at: Growing, a: int, b: int, _: int) -> str:
    return _one_of(_VIEWS, b).replace("{}", at.pick(a, lambda value: value.dim() > 0))


def _reduction(at: Growing, a: int, b: int, _: int) -> str:
    return _one_of(_REDUCTIONS, b).replace("{}", at.pick(a, lambda value: value.dim() > 0))


def _in_place(at: Growing, a: int, b: int, c: int) -> str:
    return _one_of(_IN_PLACE, c).format(at.pick(a), at.pick(b))


def _cast(at: Growing, a: int, b: int, _: int) -> str:
    return _one_of(_CASTS, b).format(at.pick(a))


def _matmul(at: Growing, a: int, b: int, c: int) -> str:
    left = at.pick(a, lambda value: _is_float(value) and value.dim() >= 2)
    wide = at.values[left].shape[-1]
    if c % 3 == 0:
        return f"torch.nn.functional.linear({left}, {at.constant(f'torch.randn(4, {wide})')})"
    if c % 3 == 1:
        return f"{left} @ {left}.mT"
    right = at.pick(b, lambda value: _is_float(value) and value.dim() >= 2)
    return f"{left} @ {right}"


def _attention(at: Growing, a: int, b: int, c: int) -> str:
    query = at.pick(a, lambda value: _is_float(value) and value.dim() == 4)
    key = at.pick(b, lambda value: _is_float(value) and value.dim() == 4)
    mask = ("", ", is_causal=True", ", scale=0.5")[c % 3]
    return f"torch.nn.functional.scaled_dot_product_attention({query}, {key}, {key}{mask})"


def _joined(at: Growing, a: int, b: int, c: int) -> str:
    left, right = at.pick(a), at.pick(b)
    return _one_of(
        ("torch.cat([{0}, {1}], -1)", "torch.stack([{0}, {1}])", "torch.cat([{0}, {0}])",
         "torch.where({0} > 0, {0}, {1})"), c
    ).format(left, right)  # fmt: skip


def _constant(at: Growing, a: int, b: int, c: int) -> str:
    value = at.pick(a)
    made = made_as("float32", tuple(at.values[value].shape[-1:]) if b % 2 else ())
    return _one_of(("{} * {}", "{} + {}", "torch.maximum({}, {})"), c).format(
        value, at.constant(made)
    )


def _buffer(at: Growing, a: int, b: int, c: int) -> str:
    names = list(at.state)
    if b % 3 == 0 or not names:
        value = at.pick(a, lambda value: _is_float(value) and value.shape[:1] != (ROWS,))
        made = f"torch.zeros({tuple(at.values[value].shape)})"
        buffer = at.constant(made)
        return _one_of(("{}.add_({})", "{}.copy_({})", "{}.mul_(0.5).add_({})"), c).format(
            buffer, value
        )
    return f"torch.mul(self.{names[a % len(names)]}, 2.0)"


def _random(at: Growing, a: int, b: int, c: int) -> str:
    if not at.may_draw:
        raise NoneFits
    shape = ("2, 3", "3", "1, 3")[a % 3]
    return f"{('torch.rand', 'torch.randn')[b % 2]}({shape})"


def _again(at: Growing, a: int, b: int, c: int) -> str:
    """What was computed before, once more."""
    made = [step.partition(" = ")[2] for step in at.steps if step.startswith("v")]
    if not made:
        raise NoneFits
    return made[::-1][a % len(made)]


def _conditional(at: Growing, a: int, b: int, c: int) -> str:
    value = at.pick(a, _is_float)
    branches = ("lambda x: x * 2, lambda x: x - 1", "lambda x: x.sin(), lambda x: x + x")[b % 2]
    return f"torch.cond({value}.sum() > {c % 3 - 1}, {branches}, ({value},))"


def _nothing(at: Growing, a: int, b: int, c: int) -> str:
    """What hypothesis makes of what a smaller program can do without."""
    raise NoneFits


Rule = Callable[[Growing, int, int, int], str]

RULES: tuple[Rule, ...] = (
    _nothing, _binary, _unary, _with_scalar, _view, _reduction, _binary, _in_place, _cast, _matmul,
    _joined, _constant, _view, _buffer, _random, _with_scalar, _unary, _attention, _conditional,
    _again, _scaled, _again, _scaled,
)  # fmt: skip
"""What may be done next; the frequent ones stand there twice."""
