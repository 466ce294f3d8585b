"""Attention over many keys: its scores never stand in memory as a whole, nor does their noise.

A block of rows is computed at a time. Where results err, the error of weight (i, j), relative to
it, is a product of two random numbers, one of the row and one of the key, with the amplitude that
the operations on the way have there: what a row sums up is then disturbed by independent terms,
without a random number for each score.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

NAME = "_scaled_dot_product_flash_attention_for_cpu"
# Attention with more scores is computed here; others as what it is made of.
_LARGE = 2**22
# Scores that are held at a time, several times over: what a cache holds.
_BLOCK = 2**17


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

    def factors(self, here: Place, keys: Place) -> torch.Tensor:
        """What the scores of a block are multiplied by: their part of ``t·d``."""
        of_row, of_key = self.side[here], self.d[keys].unsqueeze(-2)
        return torch.addcmul(torch.ones((), dtype=torch.float64), of_row, of_key, value=-1)

    def of_rows(self, most: torch.Tensor) -> torch.Tensor:
        """With :attr:`of_keys` the rest of the exponents, a product: (batches, heads, rows, 5)."""
        side = self.side
        return torch.cat([side * self.norm, side * most.abs(), side, side * most, -most], -1)

    @property
    def of_keys(self) -> torch.Tensor:
        """The other factor, (batches, heads of the key, 5, keys)."""
        return torch.stack([self.a, self.b, self.c, self.d, torch.ones_like(self.d)], -2)


@dataclass(frozen=True)
class Evaluated:
    """What attention returns, and what further runs need of it.

    Attributes:
        out: the result, laid out as the operator's own.
        most: the largest score of each row, (batches, heads, rows, 1).
        magnitude: the result with absolute values for values.
    """

    out: torch.Tensor
    most: torch.Tensor
    magnitude: torch.Tensor


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


def evaluate(call: Attention) -> Evaluated:
    """Compute it without errors."""
    most = call.query.new_empty(*call.query.shape[:3], 1)

    def exponents(here: Place, keys: Place) -> torch.Tensor:
        scores = _scores(call, here, keys)
        most[here] = scores.amax(-1, keepdim=True)
        return scores.sub_(most[here])

    out, magnitude = _weighted(call, exponents, [call.value.abs()])
    return Evaluated(out, most, magnitude)


def evaluate_with(errors: Errors, call: Attention, most: torch.Tensor) -> torch.Tensor:
    """Compute it with errors of the weights.

    Args:
        errors: of them.
        call: what is computed.
        most: the largest score of each row without errors.
    """
    of_rows, of_keys = errors.of_rows(most), errors.of_keys

    def exponents(here: Place, keys: Place) -> torch.Tensor:
        scores = _scores(call, here, keys, errors)
        scores[0].baddbmm_(of_rows[here][0], of_keys[keys[:2]][0, ..., keys[2]])
        return scores

    return _weighted(call, exponents, [])[0]


def _weighted(
    call: Attention,
    exponents: Callable[[Place, Place], torch.Tensor],
    others: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Means of the values, and of others like them, with weights that are exponentials."""
    batches, heads, length, _ = call.query.shape
    depth = call.value.shape[-1]
    # A column of ones sums up the weights.
    columns = [call.value, *others, torch.ones_like(call.value[..., :1])]
    values = torch.cat(columns, -1)
    shape = (length, batches, heads, depth)
    results = [call.query.new_empty(shape).permute(1, 2, 0, 3) for _ in columns[1:]]
    for here in blocks(call.query.shape[:3], call.key.shape, _BLOCK):
        batch, some, rows = here
        last = min(rows.stop, call.key.shape[2]) if call.is_causal else call.key.shape[2]
        keys = (batch, _heads_of(call, some), slice(0, last))
        sums = exponents(here, keys).exp_() @ values[keys]
        for number, result in enumerate(results):
            found = sums[..., number * depth : (number + 1) * depth]
            torch.div(found, sums[..., -1:], out=result[here])
    return results


def _scores(
    call: Attention, here: Place, keys: Place, errors: Errors | None = None
) -> torch.Tensor:
    """Of a block, hidden ones being minus infinity."""
    scores = (call.query[here] * call.scale) @ call.key[keys].mT
    if call.mask is not None:
        scores += call.mask[here][..., keys[2]]
    if errors is not None:
        scores *= errors.factors(here, keys)
    if call.is_causal:
        later = scores[..., here[2].start + 1 :]
        later.masked_fill_(_above_diagonal(*later.shape[-2:]), -math.inf)
    return scores


@functools.lru_cache(maxsize=8)
def _above_diagonal(rows: int, columns: int) -> torch.Tensor:
    return torch.ones(rows, columns, dtype=torch.bool).triu_()


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
