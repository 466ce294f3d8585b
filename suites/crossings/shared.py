"""Values that several operators read: a result and its activation, used together and once more.

Delegates fuse an activation into the operator before it, and quantizers let operators share the
scale of a value. Both are wrong where another operator reads the value between them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Case
from suites.crossings.build import Row, cross

SHAPE = (2, 4, 6, 6)
"""The shape of every value but those of the last operator."""

_LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, 6),
    "conv": lambda: nn.Conv2d(4, 4, 3, padding=1),
    "depthwise": lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4),
    "batchnorm": lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)),
    "transposed": lambda: nn.ConvTranspose2d(4, 4, 3, padding=1),
}
_OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "input": lambda x, y: x,
    "add": torch.add,
    "mul": torch.mul,
    "matmul": torch.matmul,
    "cat": lambda x, y: torch.cat([x[:, :2], y[:, 2:]], 1),
    "avgpool": lambda x, y: F.avg_pool2d(x + y, 3, 1, 1),
    "maxpool": lambda x, y: F.max_pool2d(x + y, 3, 1, 1),
    "permute": lambda x, y: (x + y).permute(0, 1, 3, 2),
}
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 0.4),
    "clampmin": lambda x: x.clamp(min=-0.1),
    "clampmax": lambda x: x.clamp(max=0.2),
    "leakyrelu": lambda x: F.leaky_relu(x, 0.2),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "softmax": lambda x: torch.softmax(x, -1),
    "neg": torch.neg,
    "number": lambda x: x * 0.3 + 0.2,
}
_USES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "catbefore": lambda after, before, x: torch.cat([after, before], 1),
    "beforecat": lambda after, before, x: torch.cat([before, after], 2),
    "catinput": lambda after, before, x: torch.cat([after, x], -1),
    "catitself": lambda after, before, x: torch.cat([after, after], 1),
    "stackbefore": lambda after, before, x: torch.stack([before, after], 1),
    "addbefore": lambda after, before, x: after + before,
    "addinput": lambda after, before, x: x + after,
    "subbefore": lambda after, before, x: after - before,
    "beforesub": lambda after, before, x: before - after,
    "mulbefore": lambda after, before, x: before * after,
    "mulitself": lambda after, before, x: after * after,
    "maximum": lambda after, before, x: torch.maximum(after, before),
    "where": lambda after, before, x: torch.where(x > 0, after, before),
    "poolbefore": lambda after, before, x: F.max_pool2d(before, 2) + F.avg_pool2d(after, 2),
    "again": lambda after, before, x: F.relu(before) - torch.tanh(after),
}
FACTORS = {
    "producer": (*_LAYERS, *_OPERATORS),
    "activation": tuple(_ACTIVATIONS),
    "use": tuple(_USES),
    "further": ("none", "returned", "before", "layer", "view"),
}


class Shared(nn.Module):
    """Uses a result and its activation together, and one of them once more, as a row says."""

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.layer = _LAYERS.get(row["producer"], nn.Identity)()
        self.last = nn.Linear(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Return what uses both, and what ``further`` adds.

        Args:
            x: input of the producer.
            y: its second input.
        """
        name = self.row["producer"]
        before = self.layer(x) if name in _LAYERS else _OPERATORS[name](x, y)
        after = _ACTIVATIONS[self.row["activation"]](before)
        further = {
            "none": lambda: (),
            "returned": lambda: (after,),
            "before": lambda: (before,),
            "layer": lambda: (self.last(after),),
            "view": lambda: (after.reshape(2, 24, 6),),
        }[self.row["further"]]()
        return (_USES[self.row["use"]](after, before, x), *further)


def allows(row: Row) -> bool:
    """Whether the row is valid. An input that is returned is no result; ``further`` follows from
    the other values, so that each of its values is equally frequent."""
    if "further" not in row:
        return True
    places = [FACTORS[name].index(row[name]) for name in ("producer", "activation", "use")]
    if row["further"] != FACTORS["further"][sum(places) % len(FACTORS["further"])]:
        return False
    return not (row["producer"] == "input" and row["further"] == "before")


def _make_case(name: str, row: Row) -> Case:
    return Case(name, lambda: (Shared(row).eval(), (torch.randn(SHAPE), torch.randn(SHAPE))))


# int8_per_tensor in place of int8, because Cortex-M has the cases of int8: it concatenates images
# wrongly (docs/findings/runtime_cat_channels_last.py) and ignores other readers of a layer
# (int_linear/two_users), which would hide most cases.
CASES: list[Case] = cross(
    "shared", FACTORS, allows, _make_case, "xnnpack:int8_per_tensor|tosa:int|tosa:int16"
)
