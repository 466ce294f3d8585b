"""Speech models: encoders of spectrograms and raw sound, decoders that attend to them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.models.build import DYNAMIC, EVERY, VOCABULARY, Field, Make, model
from suites.models.inputs import BEGIN, END, PAD, PLACE, causal_mask, mel, tokens, waveform
from suites.models.language import SIZES as LANGUAGE
from suites.models.weights import init_weights

WIDTH = 128


def whisper_config(**sizes: Any) -> Any:
    """Make a configuration of Whisper with 32 positions of sound instead of 1,500."""
    from transformers import WhisperConfig

    own = {
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        "num_mel_bins": 80,
        "max_source_positions": 32,
        "max_target_positions": 64,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
    }
    return WhisperConfig(**{**own, **sizes})


def whisper_encoder(**sizes: Any) -> torch.nn.Module:
    """Whisper's encoder: two convolutions, the second of stride 2, and a transformer."""
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return Field(init_weights(WhisperEncoder(whisper_config(**sizes))), "last_hidden_state")


class Listening(torch.nn.Module):
    """A decoder with a tied embedding.

    It maps tokens and positions (1, L), a mask (1, 1, L, L) and encoder states (1, S, width) to
    logits (1, L, vocabulary).
    """

    def __init__(self, decoder: Any) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, sound: torch.Tensor
    ) -> torch.Tensor:
        states = self.decoder(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            encoder_hidden_states=sound,
            use_cache=False,
        ).last_hidden_state
        return torch.nn.functional.linear(states, self.decoder.embed_tokens.weight)


def whisper_decoder(**sizes: Any) -> torch.nn.Module:
    """Whisper's decoder: a transformer with self-attention and cross-attention to the sound."""
    from transformers.models.whisper.modeling_whisper import WhisperDecoder

    return Listening(init_weights(WhisperDecoder(whisper_config(**sizes))))


class Voxtral(torch.nn.Module):
    """Voxtral: maps sound (1, bands, frames), text, positions and a mask to logits.

    The embeddings of the sound precede those of the text; there are logits for both.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, sound: torch.Tensor, text: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        inner = self.model.model
        heard = inner.get_audio_features(sound, return_dict=True).pooler_output
        words = inner.get_input_embeddings()(text)
        states = inner.language_model(
            inputs_embeds=torch.cat([heard[None], words], 1),
            position_ids=positions,
            attention_mask=mask,
            use_cache=False,
        ).last_hidden_state
        logits: torch.Tensor = self.model.lm_head(states)
        return logits


def voxtral_model(**sizes: Any) -> Any:
    """Voxtral: Whisper's encoder, a projector over four frames at a time, Llama."""
    from transformers import VoxtralConfig, VoxtralForConditionalGeneration

    audio = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": 4 * WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_mel_bins": 128,
        "max_source_positions": 32,
    }
    text = {**LANGUAGE, "num_hidden_layers": 1, **sizes}
    config = VoxtralConfig(audio_config=audio, text_config=text, audio_token_id=PLACE)
    return init_weights(VoxtralForConditionalGeneration(config))


def voxtral(**sizes: Any) -> torch.nn.Module:
    """Voxtral over sound and text in one call."""
    return Voxtral(voxtral_model(**sizes))


def _parakeet_encoder(**sizes: Any) -> dict[str, Any]:
    own = {
        "hidden_size": WIDTH,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "subsampling_conv_channels": 32,
        "max_position_embeddings": 128,
        "model_type": "parakeet_encoder",
    }
    return {**own, **sizes}


def parakeet_ctc(**sizes: Any) -> torch.nn.Module:
    """Parakeet CTC: three convolutions of stride 2, a conformer, and a head for every frame."""
    from transformers import ParakeetCTCConfig, ParakeetForCTC

    config = ParakeetCTCConfig(
        encoder_config=_parakeet_encoder(**sizes), vocab_size=64, pad_token_id=63
    )
    return Field(init_weights(ParakeetForCTC(config), mel(80, 80).mT), "logits")


class Transducer(torch.nn.Module):
    """One step of Parakeet's TDT decoder.

    It maps a token (1, 1), LSTM states (layers, 1, width) and a frame (1, 1, width) to logits of
    tokens and durations, and the next states.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.embedding = model.decoder.embedding
        self.lstm = model.decoder.lstm
        self.projector = model.decoder.decoder_projector
        self.joint = model.joint

    def forward(
        self, token: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, frame: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        states, (hidden, cell) = self.lstm(self.embedding(token), (hidden, cell))
        return self.joint(self.projector(states), frame), hidden, cell


def parakeet_tdt(**sizes: Any) -> torch.nn.Module:
    """Parakeet TDT's prediction and joint networks; the encoder is that of CTC."""
    from transformers import ParakeetForTDT, ParakeetTDTConfig

    own = {"vocab_size": 64, "blank_token_id": 63, "decoder_hidden_size": WIDTH}
    config = ParakeetTDTConfig(
        **{"encoder_config": _parakeet_encoder(num_hidden_layers=1), **own, **sizes}
    )
    return Transducer(init_weights(ParakeetForTDT(config)))


def wav2vec2(**sizes: Any) -> torch.nn.Module:
    """wav2vec 2.0: seven convolutions over raw sound, a grouped convolution for positions, a
    transformer."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    own = {
        "vocab_size": 32,
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 256,
        "conv_dim": (32,) * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }
    return Field(init_weights(Wav2Vec2ForCTC(Wav2Vec2Config(**{**own, **sizes}))), "logits")


class Dictation(torch.nn.Module):
    """Moonshine: maps sound (1, samples), tokens and positions (1, L) and a mask (1, 1, L, L) to
    logits (1, L, vocabulary)."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, sound: torch.Tensor, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        logits: torch.Tensor = self.model(
            input_values=sound,
            decoder_input_ids=tokens,
            decoder_position_ids=positions,
            decoder_attention_mask=mask,
            use_cache=False,
        ).logits
        return logits


def moonshine(**sizes: Any) -> torch.nn.Module:
    """Moonshine: three convolutions over raw sound, rotary positions in encoder and decoder."""
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration

    own = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": 256,
        "max_position_embeddings": 64,
    }
    for part in ("encoder", "decoder"):
        own |= {
            f"{part}_num_hidden_layers": 1,
            f"{part}_num_attention_heads": 2,
            f"{part}_num_key_value_heads": 2,
        }
    return Dictation(
        init_weights(MoonshineForConditionalGeneration(MoonshineConfig(**{**own, **sizes})))
    )


def spectrogram(frames: int, bands: int = 80) -> Make:
    """Make a mel spectrogram (1, bands, frames)."""
    return lambda: (mel(frames, bands),)


def frames_first(frames: int, bands: int = 80) -> Make:
    """Make a mel spectrogram in NeMo's layout, (1, frames, bands)."""
    return lambda: (mel(frames, bands).mT.contiguous(),)


def sound(samples: int) -> Make:
    """Make raw sound (1, samples)."""
    return lambda: (waveform(samples)[None],)


def _said(length: int) -> Inputs:
    return tokens(length, VOCABULARY), torch.arange(length)[None], causal_mask(length)


def _heard() -> Inputs:
    return (*_said(12), torch.randn(1, 32, WIDTH))


def _spoken() -> Inputs:
    text = tokens(12, VOCABULARY)
    return mel(64, 128), text, torch.arange(20)[None], causal_mask(20)


def _step() -> Inputs:
    state = torch.rand(2, 2, 1, WIDTH) * 2 - 1
    return torch.randint(0, 63, (1, 1)), *state, torch.randn(1, 1, WIDTH)


def _dictated() -> Inputs:
    return waveform(4000)[None], *_said(8)


_FRAMES = 8 * Dim("eighths", min=3, max=20)

CASES: list[Case] = [
    model("whisper/encoder", whisper_encoder, spectrogram(64), spectrogram(64), targets=EVERY),
    model("whisper/decoder", whisper_decoder, _heard, _heard),
    model("voxtral/tiny", voxtral, _spoken, _spoken),
    model(
        "parakeet/ctc",
        partial(parakeet_ctc, num_hidden_layers=1),
        frames_first(80),
        frames_first(80),
        targets=EVERY,
    ),
    model("parakeet/tdt_step", parakeet_tdt, _step, _step),
    model("wav2vec2/tiny", partial(wav2vec2, num_hidden_layers=1), sound(4000), sound(4000)),
    model("moonshine/tiny", moonshine, _dictated, _dictated),
    model(
        "parakeet/dynamic",
        parakeet_ctc,
        frames_first(80),
        frames_first(24),
        frames_first(160),
        dynamic=({1: _FRAMES},),
        targets=DYNAMIC,
    ),
]
