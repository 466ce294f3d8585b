"""Decoders that generate: a prompt, 16 tokens one by one, and the prompt again.

Eager chooses the tokens: each is the likeliest token that did not occur yet (otherwise random
weights repeat one word). A target that conforms chooses the same tokens. The repeated prompt is a
second conversation, from position 0, in a cache that still holds the first. Static programs take
the prompt token by token, as transformers' ``generate`` of an exported program does. Programs with
dynamic shapes take it in one call.
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
from suites.models.weights import init_weights

STEPS = 16  # tokens that are generated
PROMPT = 3
SENSED = 2  # tokens of the prompt that an image or audio embedding replaces
LENGTHS = (5, 1, 8)  # prompt lengths of a program with several prompts

Step = Callable[[torch.Tensor, int], Inputs]
"""Makes the inputs of a call from tokens (1, L) and the position of the first."""


def positions(words: torch.Tensor, start: int) -> torch.Tensor:
    """Positions (L,) of tokens (1, L), from the position of the first."""
    return torch.arange(start, start + words.shape[1])


def plain_step() -> Step:
    """Make inputs of tokens and positions."""
    return lambda words, start: (words, positions(words, start))


def masked_step() -> Step:
    """Make inputs of tokens, positions and the mask that a runner gives: no later positions."""

    def step(words: torch.Tensor, start: int) -> Inputs:
        at = positions(words, start)
        unseen = torch.arange(CAPACITY)[None] > at[:, None]
        least = torch.finfo(torch.float32).min
        mask = torch.zeros(unseen.shape).masked_fill(unseen, least)
        return words, at, mask[None, None]

    return step


def encoder_step() -> Step:
    """Make inputs of tokens, encoder states (the same in every call) and positions."""
    states = torch.randn(1, 32, WIDTH)
    return lambda words, start: (words, states, positions(words, start))


def media_step() -> Step:
    """Make inputs of tokens, image or audio embeddings of the first tokens, and positions."""
    made = torch.randn(1, CAPACITY, WIDTH)

    def step(words: torch.Tensor, start: int) -> Inputs:
        at = positions(words, start)
        return words.masked_fill(at < SENSED, PLACE), made[:, at], at

    return step


def prompt_calls(step: Step, prompt: int, at_once: bool) -> list[Inputs]:
    """Make the calls of a prompt: one, or one for each token."""
    words = tokens(prompt, VOCABULARY)
    if at_once:
        return [step(words, 0)]
    return [step(words[:, at : at + 1], at) for at in range(prompt)]


def generate_calls(
    module: torch.nn.Module, step: Step, prompt: Sequence[Inputs], start: int, steps: int
) -> list[Inputs]:
    """Generate tokens after a prompt, on a copy of the module.

    Args:
        module: the decoder; its state does not change.
        step: makes the inputs of a call.
        prompt: the calls of the prompt.
        start: position of the first generated token.
        steps: number of generated tokens.

    Returns:
        The inputs of the calls after the prompt, one for each generated token.
    """
    speaker = copy.deepcopy(module).eval()
    calls: list[Inputs] = []
    with torch.no_grad():
        for inputs in prompt:
            logits = speaker(*inputs)
        for position in range(start, start + steps):
            calls.append(step(choose_token(logits, [*prompt, *calls]), position))
            logits = speaker(*calls[-1])
    return calls


def choose_token(logits: torch.Tensor, calls: Sequence[Inputs]) -> torch.Tensor:
    """Choose the likeliest next token (1, 1) from logits (1, L, vocabulary).

    Args:
        logits: logits of the last call.
        calls: all calls of the conversation; their tokens and special tokens are excluded.
    """
    said = torch.cat([call[0][0] for call in calls])
    last = logits[:, -1:].clone()
    last[..., said] = -torch.inf
    last[..., [PAD, BEGIN, END]] = -torch.inf
    return last.argmax(-1)


def generation_case(
    name: str,
    module: Callable[[], torch.nn.Module],
    make: Callable[[], Step],
    *,
    prompts: Sequence[int] = (PROMPT,),
    steps: int = STEPS,
    dynamic: Any = None,
    targets: str = USUAL,
) -> Case:
    """Make a case of one conversation for each prompt, and the first prompt again; a plain run
    does not select it.

    Args:
        name: ``architecture/variant``.
        module: makes the decoder, with weights from :func:`init_weights`.
        make: makes the ``Step``; it may draw tensors that all calls share.
        prompts: length of each prompt.
        steps: number of tokens generated after the first prompt; 4 are generated after the others.
        dynamic: ``dynamic_shapes`` of ``torch.export.export``; each prompt is then one call.
        targets: globs over targets.
    """
    further: list[Inputs] = []
    at_once = dynamic is not None

    def build() -> tuple[torch.nn.Module, Inputs]:
        made, step = module(), make()
        calls: list[Inputs] = []
        for length in prompts:
            prompt = prompt_calls(step, length, at_once)
            more = 4 if calls else steps
            calls += [*prompt, *generate_calls(made, step, prompt, length, more)]
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
        plain_targets="",
    )


def whisper() -> Any:
    """Whisper with its language head."""
    from transformers import WhisperForConditionalGeneration

    return init_weights(WhisperForConditionalGeneration(whisper_config()))


# Targets of architectures that decode as Llama does.
_FEW = "portable:fp32|xnnpack:fp32|mlx:fp32"

_LENGTH = Dim("length", min=1, max=8)
_TOKENS = ({1: _LENGTH}, {0: _LENGTH})
_MASKED = (*_TOKENS, {2: _LENGTH})
_HEARD = ({1: _LENGTH}, None, {0: _LENGTH})

CASES: list[Case] = [
    generation_case("llama/decode", lambda: Shipped(llama()), plain_step),
    generation_case(
        "llama/decode_positioned",
        lambda: Positioned(llama()),
        masked_step,
        targets=f"{FLOAT}|tosa:int|cortex_m:int8",
    ),
    generation_case(
        "lfm2/decode_positioned", lambda: Positioned(lfm2()), masked_step, targets=FLOAT
    ),
    generation_case("qwen3/decode", lambda: Shipped(qwen3()), plain_step, targets=_FEW),
    generation_case(
        "gemma3/decode", lambda: Shipped(gemma3()), plain_step, targets=f"{_FEW}|tosa:fp"
    ),
    # XNNPACK's exact gelu is correct, so that this case checks the cache.
    generation_case(
        "gemma3/decode_exact_gelu",
        lambda: Shipped(gemma3(hidden_activation="gelu")),
        plain_step,
        targets="xnnpack:fp32",
    ),
    generation_case("smollm3/decode", lambda: Shipped(smollm3()), plain_step, targets=_FEW),
    generation_case(
        "whisper/decode", lambda: ShippedListening(whisper()), encoder_step, targets=FLOAT
    ),
    generation_case(
        "voxtral/decode", lambda: ShippedSensing(voxtral_model(), PLACE), media_step, targets=FLOAT
    ),
    generation_case(
        "smolvlm/decode", lambda: ShippedSensing(smolvlm(), PLACE), media_step, targets=_FEW
    ),
    generation_case("t5/decode", lambda: ShippedListening(t5().model), encoder_step, targets=_FEW),
    generation_case("mamba/decode", lambda: Recurrent(mamba()), plain_step, targets=FLOAT),
    *(
        generation_case(
            f"{name}/decode_dynamic",
            lambda make=make, wrap=wrap: wrap(make()),
            step,
            prompts=LENGTHS,
            dynamic=shapes,
            targets=targets,
        )
        for name, make, wrap, step, shapes, targets in [
            ("llama", llama, Shipped, plain_step, _TOKENS, DYNAMIC),
            ("qwen3", qwen3, Shipped, plain_step, _TOKENS, _FEW),
            ("gemma3", gemma3, Shipped, plain_step, _TOKENS, "portable:fp32|mlx:fp32"),
            ("whisper", whisper, ShippedListening, encoder_step, _HEARD, _FEW),
        ]
    ),
    generation_case(
        "llama/decode_positioned_dynamic",
        lambda: Positioned(llama()),
        masked_step,
        prompts=LENGTHS,
        dynamic=_MASKED,
        targets=DYNAMIC,
    ),
    generation_case(
        "llama/decode_mlx_cache",
        lambda: ShippedForMLX(_for_mlx(llama), 8),
        plain_step,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
    generation_case(
        "gemma3/decode_mlx_ring",
        lambda: ShippedForMLX(_for_mlx(gemma3), WINDOW),
        plain_step,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
    generation_case(
        "llama/decode_mlx_off_graph",
        lambda: DecoderOffGraph(llama, 8),
        plain_step,
        prompts=LENGTHS,
        dynamic=_TOKENS,
        targets="mlx:fp32",
    ),
]


def _for_mlx(make: Callable[..., Any]) -> Any:
    from executorch.backends.mlx.llm import hf_attention

    hf_attention.register_mlx_attention()
    return make(attn_implementation="mlx")
