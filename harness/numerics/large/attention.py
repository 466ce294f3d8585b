"""Attention over many keys: its scores never stand in memory as a whole, nor does their noise.

A block of rows is computed at a time. Where results err, the error of weight (i, j), relative to
it, is a product of two random numbers, one of the row and one of the key, with the amplitude that
the operations on the way have there: what a row sums up is then disturbed by independent terms,
without a random number for each score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Attention with more scores is computed here; others as what it is made of.
_LARGE = 2**22
# Scores that are held at a time, several times over: what a cache holds.
_BLOCK = 2**18


Place: TypeAlias = tuple[slice, slice, slice]
"""Batches, heads, and rows or keys."""


@dataclass(frozen=True)
class Attention:
    """A call with many scores. All tensors are float64.

    Attributes:
        query: (batches, heads, rows, depth).
        key: (batches, heads or a divisor of it, keys, depth).
        value: likewise.
        mask: what is added to the scores, broadcast to (batches, heads, rows, keys).
        is_causal: a row sees the keys up to its own number.
        scale: factor on the scores.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    is_causal: bool
    scale: float


@dataclass(frozen=True)
class Errors:
    """Relative errors of the weights in one run: ``side·(norm·a + |most|·b + c + t·d)`` of the
    weight ``exp(-t)``, ``t`` being how far its score is below ``most``, the largest of its row.

    Attributes:
        side: plus or minus one, (batches, heads, rows, 1).
        norm: of the scaled query, likewise.
        a: error of a product of unit vectors with this key, (batches, heads of the key, keys).
        b: of a score, relative to it.
        c: of the exponential.
        d: of its argument, relative to it.
    """

    side: torch.Tensor
    norm: torch.Tensor
    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    d: torch.Tensor

    def exponents(
        self, here: Place, keys: Place, t: torch.Tensor, most: torch.Tensor
    ) -> torch.Tensor:
        """What the weights of a block are the exponentials of."""
        of_row = torch.cat([self.norm[here], most.abs(), torch.ones_like(most)], -1)
        of_key = torch.stack([self.a[keys], self.b[keys], self.c[keys]], -2)
        error = (of_row @ of_key).addcmul_(t, self.d[keys].unsqueeze(-2))
        return error.mul_(self.side[here]).sub_(t)


def large(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Attention | None:
    """A call of the operator, if it has many scores and every row has a key that it sees."""
    shape = (*query.shape[:3], key.shape[2])
    if math.prod(shape) <= _LARGE or dropout_p:
        return None
    if attn_mask is not None:
        if bool((attn_mask == -math.inf).all(-1).any()):
            return None
        attn_mask = attn_mask.expand(shape)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return Attention(query, key, value, attn_mask, is_causal, scale)


def evaluate(call: Attention, errors: Errors | None = None) -> torch.Tensor:
    """The result, laid out as the operator's own.

    Args:
        call: what is computed.
        errors: of the weights; None for none.
    """
    batches, heads, length, _ = call.query.shape
    out = call.query.new_empty(length, batches, heads, call.value.shape[-1]).permute(1, 2, 0, 3)
    for here in blocks(call.query.shape[:3], call.key.shape, _BLOCK):
        batch, some, rows = here
        last = min(rows.stop, call.key.shape[2]) if call.is_causal else call.key.shape[2]
        keys = (batch, _heads_of(call, some), slice(0, last))
        scores = (call.query[here] @ call.key[keys].mT).mul_(call.scale)
        if call.mask is not None:
            scores += call.mask[here][..., :last]
        if call.is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu_(rows.start + 1)
            scores.masked_fill_(hidden, -math.inf)
        most = scores.amax(-1, keepdim=True)
        # A hidden key is infinitely far below; its weight is zero, and stays so.
        below = scores.neg_().add_(most).clamp_max_(1e3)
        exponents = below.neg_() if errors is None else errors.exponents(here, keys, below, most)
        weights = exponents.exp_()
        out[here] = (weights @ call.value[keys]).div_(weights.sum(-1, keepdim=True))
    return out


def blocks(query: Sequence[int], key: Sequence[int], held: int = _LARGE) -> Iterator[Place]:
    """Batches, heads and rows of a query whose scores are held together.

    Args:
        query: batches, heads and rows of the query.
        key: the same of the keys; where several heads share one, a head is taken at a time.
        held: how many scores.
    """
    batches, heads, length = query[:3]
    at_a_time = max(1, held // (length * key[2])) if heads == key[1] else 1
    rows = max(1, min(length, held // key[2]))
    for batch in range(batches):
        for head in range(0, heads, at_a_time):
            for row in range(0, length, rows):
                yield (
                    slice(batch, batch + 1),
                    slice(head, min(head + at_a_time, heads)),
                    slice(row, min(row + rows, length)),
                )


def _heads_of(call: Attention, heads: slice) -> slice:
    """The heads of the keys that belong to these of the query."""
    shared = call.query.shape[1] // call.key.shape[1]
    return heads if shared == 1 else slice(heads.start // shared, heads.start // shared + 1)
