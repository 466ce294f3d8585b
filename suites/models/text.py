"""Encoders of text, a sequence-to-sequence model, and a recurrent tagger."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.models.build import DYNAMIC, EVERY, FLOAT, VOCABULARY, Make, Masked, model
from suites.models.inputs import BEGIN, END, PAD, padded_tokens, tokens
from suites.models.weights import init_weights

LABELS = 8
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 64,
    "num_labels": LABELS,
    "pad_token_id": PAD,
}


def bert(**sizes: Any) -> torch.nn.Module:
    """BERT with a head over the first position."""
    from transformers import BertConfig, BertForSequenceClassification

    return Masked(
        init_weights(BertForSequenceClassification(BertConfig(**{**SIZES, **sizes}))), "logits"
    )


def mobilebert(**sizes: Any) -> torch.nn.Module:
    """MobileBERT: bottlenecks around each layer, norms without statistics."""
    from transformers import MobileBertConfig, MobileBertForSequenceClassification

    own = {"intermediate_size": 128, "intra_bottleneck_size": 128, "embedding_size": 128}
    config = MobileBertConfig(**{**SIZES, **own, **sizes})
    made = MobileBertForSequenceClassification(config)
    # Its norms have no statistics, so that they do not normalize.
    return Masked(init_weights(made, embedding=2 * config.embedding_size**0.5, gain=0.6), "logits")


class Translator(torch.nn.Module):
    """T5: source ids and their mask (N, L), target ids (N, M), to logits (N, M, vocabulary)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: torch.Tensor, mask: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        logits: torch.Tensor = self.model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False
        ).logits
        return logits


def t5(**sizes: Any) -> torch.nn.Module:
    """T5: relative positions by buckets, attention that is not scaled."""
    from transformers import T5Config, T5ForConditionalGeneration

    own = {"d_model": 128, "d_kv": 64, "d_ff": 256, "num_layers": 2, "num_heads": 2}
    config = T5Config(
        **{"vocab_size": VOCABULARY, "decoder_start_token_id": BEGIN, "eos_token_id": END, **own,
           **sizes}
    )  # fmt: skip
    made = init_weights(T5ForConditionalGeneration(config), embedding=2 * config.d_model**0.5)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if name.endswith(".q.weight"):  # trained weights compensate for the missing scale
                weight /= config.d_kv**0.5
            elif "relative_attention_bias" in name:
                weight.normal_()
    return Translator(made)


class Tagger(torch.nn.Module):
    """A tag for each word: an embedding, LSTMs in both directions, a linear layer."""

    def __init__(self, width: int = 64, layers: int = 1) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, width)
        self.lstm = torch.nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.tags = torch.nn.Linear(2 * width, LABELS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(words))
        tags: torch.Tensor = self.tags(states)
        return tags


def sentences(length: int, *lengths: int) -> Make:
    """Make ids and mask of sentences that are padded to a length."""
    return lambda: padded_tokens(length, VOCABULARY, lengths)


def translation(length: int, *lengths: int) -> Make:
    """Make padded sentences, their mask, and the target tokens so far."""

    def make() -> Inputs:
        return (*padded_tokens(length, VOCABULARY, lengths), tokens(8, VOCABULARY, len(lengths)))

    return make


_LENGTH = Dim("length", min=4, max=32)

CASES: list[Case] = [
    model("bert/tiny", bert, sentences(16, 12), sentences(16, 16)),
    model("bert/batch_2", bert, sentences(16, 16, 9), sentences(16, 5, 12), targets=FLOAT),
    model("mobilebert/tiny", mobilebert, sentences(16, 12), sentences(16, 16)),
    model(
        "t5/tiny",
        partial(t5, num_layers=1),
        translation(16, 12),
        translation(16, 16),
        targets=EVERY,
    ),
    model(
        "tagger/tiny",
        lambda: init_weights(Tagger(), embedding=8.0),
        lambda: (tokens(5, VOCABULARY),),
        lambda: (tokens(5, VOCABULARY),),
        targets=EVERY,
    ),
    model(
        "bert/dynamic",
        bert,
        sentences(16, 12),
        sentences(4, 3),
        sentences(32, 32),
        dynamic=({1: _LENGTH}, {1: _LENGTH}),
        targets=DYNAMIC,
    ),
]
