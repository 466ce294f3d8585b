"""Decoders that generate: a prompt, 16 tokens one after the other, and the prompt again.

The tokens are those that eager chooses, each the likeliest that was not said yet (without that,
random weights say one word again and again), so that a target which conforms chooses them, too. The
prompt again is a second conversation, from position 0, in a cache that holds the first. Programs of
one shape take the prompt token by token, as transformers' own ``generate`` of an exported program
does; those of dynamic shapes take it at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.mlx.cache import DecoderOffGraph
from suites.models.build import DYNAMIC, FLOAT, USUAL, VOCABULARY
from suites.models.decoding import (
    CAPACITY,
    Positioned,
    Recurrent,
    Shipped,
    ShippedForMLX,
    ShippedListening,
    ShippedSensing,
)
from suites.models.inputs import BEGIN, END, PAD, PLACE, tokens
from suites.models.language import WINDOW, gemma3, lfm2, llama, mamba, qwen3, smollm3
from suites.models.speech import WIDTH, voxtral_model, whisper_config
from suites.models.text import t5
from suites.models.vision import smolvlm
from suites.models.weights import settle

STEPS = 16  # tokens that are generated
PROMPT = 3
SENSED = 2  # of its tokens, where something seen or heard stands
LENGTHS = (5, 1, 8)  # of the prompts of a program that takes several

Step = Callable[[torch.Tensor, int], Inputs]
"""Makes the inputs of a call of tokens (1, L) and the position of the first."""


def positions(words: torch.Tensor, start: int) -> torch.Tensor:
    """Of tokens (1, L) that begin at one."""
    return torch.arange(start, start + words.shape[1])


def plain() -> Step:
    """Tokens and positions."""
    return lambda words, start: (words, positions(words, start))


def masked() -> Step:
    """The same with the mask that a runner gives: of a cache, what is not behind a token."""

    def step(words: torch.Tensor, start: int) -> Inputs:
        at = positions(words, start)
        unseen = torch.arange(CAPACITY)[None] > at[:, None]
        least = torch.finfo(torch.float32).min
        mask = torch.zeros(unseen.shape).masked_fill(unseen, least)
        return words, at, mask[None, None]

    return step


def heard() -> Step:
    """With states of an encoder, the same in every call."""
    states = torch.randn(1, 32, WIDTH)
    return lambda words, start: (words, states, positions(words, start))


def sensed() -> Step:
    """With what was made of a picture or of sound, in the places of the first tokens."""
    made = torch.randn(1, CAPACITY, WIDTH)

    def step(words: torch.Tensor, start: int) -> Inputs:
        at = positions(words, start)
        return words.masked_fill(at < SENSED, PLACE), made[:, at], at

    return step


def told(step: Step, prompt: int, at_once: bool) -> list[Inputs]:
    """The calls that a prompt takes."""
    words = tokens(prompt, VOCABULARY)
    if at_once:
        return [step(words, 0)]
    return [step(words[:, at : at + 1], at) for at in range(prompt)]


def answered(
    module: torch.nn.Module, step: Step, asked: Sequence[Inputs], start: int, steps: int
) -> list[Inputs]:
    """The calls in which a module says what is likeliest after a prompt, its state left as it is.

    Args:
        module: what generates.
        step: makes the inputs of a call.
        asked: the calls of the prompt.
        start: position of the first token that is generated.
        steps: how many.
    """
    speaker = copy.deepcopy(module).eval()
    calls: list[Inputs] = []
    with torch.no_grad():
        for inputs in asked:
            logits = speaker(*inputs)
        for position in range(start, start + steps):
            calls.append(step(likeliest(logits, [*asked, *calls]), position))
            logits = speaker(*calls[-1])
    return calls


def likeliest(logits: torch.Tensor, calls: Sequence[Inputs]) -> torch.Tensor:
    """The token (1, 1) that comes after the last of some logits (1, L, vocabulary).

    Args:
        logits: of the last call.
        calls: all of the conversation; what they said is not said again, and nothing ends it.
    """
    said = torch.cat([call[0][0] for call in calls])
    last = logits[:, -1:].clone()
    last[..., said] = -torch.inf
    last[..., [PAD, BEGIN, END]] = -torch.inf
    return last.argmax(-1)


def generation(
    name: str,
    module: Callable[[], torch.nn.Module],
    make: Callable[[], Step],
    *,
    prompts: Sequence[int] = (PROMPT,),
    steps: int = STEPS,
    dynamic: Any = None,
    targets: str = USUAL,
    plain_targets: str = "",
) -> Case:
    """A case of one conversation for each prompt, and the first prompt again.

    Args:
        name: ``architecture/variant``.
        module: makes it, with telling weights.
        make: makes the maker of a call's inputs, which may draw what is common to all calls.
        prompts: length of each.
        steps: tokens that are generated after the first of them; 4 are after others.
        dynamic: as ``torch.export.export`` takes it; prompts are then one call each.
        targets: globs over targets.
        plain_targets: see :class:`harness.Case`.
    """
    further: list[Inputs] = []
    at_once = dynamic is not None

    def build() -> tuple[torch.nn.Module, Inputs]:
        made, step = module(), make()
        calls: list[Inputs] = []
        for length in prompts:
            asked = told(step, length, at_once)
            more = 4 if calls else steps
            calls += [*asked, *answered(made, step, asked, length, more)]
        again = calls[: 1 if at_once else prompts[0]]
        first, *further[:] = [*calls, *again]
        return made, first

    words = {"model", "stateful", "fp32", *(["dynamic"] if at_once else [])}
    return Case(
        name,
        build,
        dynamic_shapes=dynamic,
        calls=lambda: list(further),
        tags=frozenset(words),
        targets=targets,
        plain_targets=plain_targets,
    )


def whisper() -> Any:
    """Whisper with its language head."""
    from transformers import WhisperForConditionalGeneration

    return settle(WhisperForConditionalGeneration(whisper_config()))


# Where an architecture that decodes as Llama does is taken to.
_FEW = "portable:fp32|xnnpack:fp32|mlx:fp32"

_LENGTH = Dim("length", min=1, max=8)
_TOKENS = ({1: _LENGTH}, {0: _LENGTH})
_MASKED = (*_TOKENS, {2: _LENGTH})
_HEARD = ({1: _LENGTH}, None, {0: _LENGTH})

CASES: list[Case] = [
    generation(
        "llama/decode",
        lambda: Shipped(llama()),
        plain,
        plain_targets="xnnpack:fp32|mlx:fp32|metal:fp32|tosa:fp",
    ),
    generation("llama/decode_positioned", lambda: Positioned(llama()), masked, targets=FLOAT),
    generation("lfm2/decode_positioned", lambda: Positioned(lfm2()), masked, targets=FLOAT),
    generation("qwen3/decode", lambda: Shipped(qwen3()), plain, targets=_FEW),
    generation("gemma3/decode", lambda: Shipped(gemma3()), plain, targets=f"{_FEW}|tosa:fp"),
    # Where XNNPACK's gelu is right, to see its cache.
    generation(
        "gemma3/decode_exact_gelu",
        lambda: Shipped(gemma3(hidden_activation="gelu")),
        plain,
        targets="xnnpack:fp32",
    ),
    generation("smollm3/decode", lambda: Shipped(smollm3()), plain, targets=_FEW),
    generation("whisper/decode", lambda: ShippedListening(whisper()), heard, targets=FLOAT),
    generation(
        "voxtral/decode", lambda: ShippedSensing(voxtral_model(), PLACE), sensed, targets=FLOAT
    ),
    generation("smolvlm/decode", lambda: ShippedSensing(smolvlm(), PLACE), sensed, targets=_FEW),
    generation("t5/decode", lambda: ShippedListening(t5().model), heard, targets=_FEW),
    generation("mamba/decode", lambda: Recurrent(mamba()), plain, targets=FLOAT),
    *(
        generation(
            f"{name}/decode_dynamic",
            lambda make=make, wrap=wrap: wrap(make()),
            step,
            prompts=LENGTHS,
            dynamic=shapes,
            targets=targets,
        )
        for name, make, wrap, step, shapes, targets in [
            ("llama", llama, Shipped, plain, _TOKENS, DYNAMIC),
            ("qwen3", qwen3, Shipped, plain, _TOKENS, _FEW),
            ("gemma3", gemma3, Shipped, plain, _TOKENS, "portable:fp32|mlx:fp32"),
            ("whisper", whisper, ShippedListening, heard, _HEARD, _FEW),
        ]
    ),
    generation(
        "llama/decode_positioned_dynamic",
        lambda: Positioned(llama()),
        masked,
        prompts=LENGTHS,
        dynamic=_MASKED,
        targets=DYNAMIC,
    ),
    generation(
        "llama/decode_mlx_cache",
        lambda: ShippedForMLX(_for_mlx(llama), 8),
        plain,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
    generation(
        "gemma3/decode_mlx_ring",
        lambda: ShippedForMLX(_for_mlx(gemma3), WINDOW),
        plain,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
    generation(
        "llama/decode_mlx_off_graph",
        lambda: DecoderOffGraph(llama, 8),
        plain,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
]


def _for_mlx(make: Callable[..., Any]) -> Any:
    from executorch.backends.mlx.llm import hf_attention

    hf_attention.register_mlx_attention()
    return make(attn_implementation="mlx")
