"""Data of a program in a record: operator calls, dynamic dimensions, encoded weights, times,
defects, the diverging node. No torch."""

from __future__ import annotations

import base64
import hashlib

import msgspec


class OperatorCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an operator is called in a lowered program; equal calls of a program have one entry.

    ``delegated`` says whether a delegate or a kernel of the backend's own library computes it.
    ``dtype``, ``rank`` and ``layout`` are those of its first floating-point input, otherwise of its
    first tensor input or, without one, of its first output; ``dtype`` is empty without a tensor.
    ``layout`` is ``contiguous``, ``channels_last`` or ``other``. ``dynamic`` means that a dimension
    of an input or output is dynamic, ``quantized`` that an input is the result of a dequantize
    operator.
    """

    op: str
    delegated: bool = False
    dtype: str = ""
    rank: int = 0
    layout: str = "contiguous"
    dynamic: bool = False
    quantized: bool = False


class OperatorClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a vendor's code states about an operator that it takes.

    ``dtypes`` are those of its inputs, None where the code does not state them. ``quantized`` says
    whether it takes operands that are dequantized, None where the code does not state it.
    ``source`` names the entry of the vendor's registry, such as ``AddConfig``.
    """

    dtypes: tuple[str, ...] | None = None
    quantized: bool | None = None
    source: str = ""


class Dimension(msgspec.Struct, frozen=True, kw_only=True):
    """A dynamic dimension of an input.

    ``low`` and ``high`` are the range that the exported program declares, ``high`` None for no
    maximum. ``sizes`` has the size in each call, in order: the calls of the case, then the calls
    that the harness added for the ends of the range.
    """

    input: str
    dim: int
    low: int
    high: int | None
    sizes: list[int]

    def __str__(self) -> str:
        return f"{self.input}:{self.dim}"

    @property
    def span(self) -> str:
        """The range as text, ``1 to 16`` or ``1 and more``."""
        return f"{self.low} and more" if self.high is None else f"{self.low} to {self.high}"


class RunProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one execution in the ExecuTorch runtime: of all delegates, and of the kernels of
    fallback nodes by operator, such as ``erf.out``."""

    delegates: float = 0.0
    fallback: dict[str, float] = {}

    @property
    def fallback_share(self) -> float:
        """The share of fallback nodes, from 0 to 1."""
        fallback = sum(self.fallback.values())
        whole = fallback + self.delegates
        return fallback / whole if whole else 0.0


class Encoding(msgspec.Struct, frozen=True, kw_only=True):
    """A quantized weight of a program, in a layout that backends share.

    Codes are one byte each, row after row of ``columns``; scales are one byte a block. The
    ``*_sha256`` are digests of these bytes; ``codes`` and ``scales`` are the bytes in base64,
    recorded for cases whose backends are compared.
    """

    parameter: str
    element: str
    block: int
    columns: int
    codes_sha256: str
    scales_sha256: str
    codes: str | None = None
    scales: str | None = None

    @classmethod
    def of(
        cls, parameter: str, element: str, block: int, columns: int, codes: bytes, scales: bytes
    ) -> Encoding:
        """Make the record of a weight, bytes included.

        Args:
            parameter: name of the weight in the module.
            element: format of the codes, such as ``e4m3``.
            block: number of codes that share a scale.
            columns: number of codes in a row.
            codes: one byte each.
            scales: one byte a block.
        """
        return cls(
            parameter=parameter,
            element=element,
            block=block,
            columns=columns,
            codes_sha256=hashlib.sha256(codes).hexdigest(),
            scales_sha256=hashlib.sha256(scales).hexdigest(),
            codes=base64.b64encode(codes).decode(),
            scales=base64.b64encode(scales).decode(),
        )

    def brief(self) -> Encoding:
        """Return a copy without the bytes."""
        return msgspec.structs.replace(self, codes=None, scales=None)


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect of a vendor's code that execution went past, as if the code were correct.

    ``error`` says what is wrong. ``node`` is the node of the lowered graph, ``op`` its operator,
    ``source`` the line of the model; each is empty where it is not known.
    """

    error: str
    node: str = ""
    op: str = ""
    source: str = ""

    def __str__(self) -> str:
        node = f"{self.node} ({self.op})" if self.op else self.node
        place = ", ".join(part for part in (node, self.source) if part)
        return f"{place}: {self.error}" if place else self.error


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first diverging node of the exported graph, or the node that fails to execute.

    ``module`` is the path of the node's module, ``source`` the line of the model. ``error`` and
    ``bound`` are of the element that uses most of its bound, ``bound_used`` is their quotient.
    ``originates_here`` says whether the node is outside its bound even with the oracle's inputs;
    False means that the error is inherited, None that it was not tried. ``note`` says why the
    search stopped early.

    ``fails`` marks the other kind: the node raises, and there are no values. ``stage`` is then the
    failing stage, and ``note`` says how the node was found, if by search. ``arguments`` are the
    node's known arguments: ``float32[1, 3, 8, 8] channels-last``, ``approximate='tanh'``.
    """

    node: str
    op: str
    module: str = ""
    source: str = ""
    shapes: str = ""
    error: float = 0.0
    bound: float = 0.0
    bound_used: float = 0.0
    originates_here: bool | None = None
    note: str = ""
    fails: bool = False
    stage: str = ""
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.fails:
            how = "to execute" if self.stage in ("", "run") else f"in {self.stage}"
            return f"{self._place}: fails {how}{f'; {self.note}' if self.note else ''}"
        origin = _ORIGINS[self.originates_here]
        note = f"; {self.note}" if self.note else ""
        used = f"{self.bound_used:.3g} times its bound"
        return f"{self._place}: error {self.error:.3g}, {used}; {origin}{note}"

    @property
    def _place(self) -> str:
        where = "".join(f", {part}" for part in (self.module, self.source) if part)
        return f"{self.node} ({self.op}){where}"


_ORIGINS = {
    True: "the error originates here",
    False: "the error is inherited",
    None: "the error's origin was not searched",
}
