"""Metrics of a task, by name: how far outputs agree with those of the float model.

Each takes the flat outputs of every call, those of the float model and, where it needs them, the
inputs. It uses the first output of a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from harness.model.metric import MetricFunction, Outputs


def top1(actual: Outputs, expected: Outputs) -> float:
    """Share of rows with the same greatest element along the last dimension, 0 to 1."""
    return _mean(actual, expected, lambda a, e: a.argmax(-1) == e.argmax(-1))


def top5(actual: Outputs, expected: Outputs) -> float:
    """Mean share of the five greatest elements of a row that are among the five of the model."""

    def share(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        count = min(5, e.shape[-1])
        mine, theirs = (x.topk(count, -1).indices for x in (a, e))
        return (mine.unsqueeze(-1) == theirs.unsqueeze(-2)).any(-1).double().mean(-1)

    return _mean(actual, expected, share)


def cosine(actual: Outputs, expected: Outputs) -> float:
    """Least cosine between a row along the last dimension and the model's, -1 to 1."""
    rows = [
        torch.nn.functional.cosine_similarity(a.double(), e.double(), dim=-1).min()
        for a, e in _pairs(actual, expected)
    ]
    return float(torch.stack(rows).min())


def rank(actual: Outputs, expected: Outputs) -> float:
    """Spearman's rank correlation of the similarities between all rows of all calls, -1 to 1.

    The similarity of two rows is their cosine: it shows whether embeddings of the nearest inputs
    remain the nearest. C. Spearman, *The Proof and Measurement of Association between Two Things*,
    Am. J. Psychol. 15(1), 1904.
    """
    orders = []
    for side in zip(*_pairs(actual, expected), strict=True):
        rows = torch.cat([x.double().reshape(-1, x.shape[-1]) for x in side])
        rows = torch.nn.functional.normalize(rows, dim=-1)
        first, second = torch.triu_indices(len(rows), len(rows), 1)
        orders.append((rows @ rows.mT)[first, second].argsort().argsort().double())
    if not orders or len(orders[0]) < 2:
        return math.nan
    return float(torch.corrcoef(torch.stack(orders))[0, 1])


def edit_distance(actual: Outputs, expected: Outputs) -> float:
    """Mean edit distance of the decoded sequences, as a share of the model's length.

    A row decodes to its greatest elements along the last dimension, without repetitions, as CTC
    decodes greedily. The distance is Levenshtein's.
    """
    distances, length = 0, 0
    for a, e in _pairs(actual, expected):
        mine, theirs = (x.argmax(-1).reshape(-1, x.shape[-2]).tolist() for x in (a, e))
        for one, other in zip(mine, theirs, strict=True):
            one, other = _merge_repeats(one), _merge_repeats(other)
            distances += _levenshtein(one, other)
            length += len(other)
    return distances / max(1, length)


def iou(actual: Outputs, expected: Outputs) -> float:
    """Mean overlap of boxes (x1, y1, x2, y2) with the model's: intersection over union, 0 to 1."""

    def overlap(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        corner = torch.maximum(a[..., :2], e[..., :2]), torch.minimum(a[..., 2:], e[..., 2:])
        inner = (corner[1] - corner[0]).clamp(min=0).prod(-1)
        areas = [(x[..., 2:] - x[..., :2]).clamp(min=0).prod(-1) for x in (a, e)]
        return inner / (areas[0] + areas[1] - inner).clamp(min=torch.finfo(torch.float32).tiny)

    return _mean(actual, expected, overlap)


def cents(actual: Outputs, expected: Outputs) -> float:
    """Greatest difference in pitch of outputs that are frequencies, in cents."""
    found = [
        (1200 * torch.log2(a.double() / e.double())).abs().max()
        for a, e in _pairs(actual, expected)
    ]
    return float(torch.stack(found).max())


def perplexity(actual: Outputs, expected: Outputs, inputs: Outputs) -> float:
    """Perplexity of the calls' own tokens: e to the mean negative log-likelihood of each next one.

    The first integer input of a call has its tokens, (..., tokens), and its first output the logits
    of the next ones, (..., tokens, vocabulary).

    Raises:
        ValueError: the shapes are others, or a call has less than two tokens.
    """
    total, count = 0.0, 0
    for outputs, given in zip(actual, inputs, strict=True):
        logits, tokens = outputs[0], next((x for x in given if _is_integer(x)), None)
        if tokens is None or logits.shape[:-1] != tokens.shape or tokens.shape[-1] < 2:
            shape = None if tokens is None else tuple(tokens.shape)
            raise ValueError(
                "perplexity needs tokens (..., tokens) as the first integer input and logits "
                f"(..., tokens, vocabulary) as the first output; they are {shape} and "
                f"{tuple(logits.shape)}"
            )
        likelihoods = logits[..., :-1, :].double().log_softmax(-1)
        next_ones = tokens[..., 1:].long().unsqueeze(-1)
        total -= float(likelihoods.gather(-1, next_ones).sum())
        count += next_ones.numel()
    return math.exp(total / count)


_ALL: tuple[MetricFunction, ...] = (
    top1, top5, cosine, rank, edit_distance, iou, cents, perplexity,
)  # fmt: skip
BY_NAME = {each.__name__: each for each in _ALL}
"""The metrics by name."""


def _pairs(actual: Outputs, expected: Outputs) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(a[0].float(), e[0].float()) for a, e in zip(actual, expected, strict=True)]


def _is_integer(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype in (torch.int64, torch.int32)


def _mean(
    actual: Outputs,
    expected: Outputs,
    compare: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float:
    """The mean over all rows of all calls."""
    rows = [compare(a, e).double().flatten() for a, e in _pairs(actual, expected)]
    return float(torch.cat(rows).mean())


def _merge_repeats(items: list[int]) -> list[int]:
    return [item for at, item in enumerate(items) if not at or items[at - 1] != item]


def _levenshtein(one: list[int], other: list[int]) -> int:
    before = list(range(len(other) + 1))
    for row, item in enumerate(one, start=1):
        now = [row]
        for column, wanted in enumerate(other, start=1):
            swap = before[column - 1] + (item != wanted)
            now.append(min(before[column] + 1, now[-1] + 1, swap))
        before = now
    return before[-1]
