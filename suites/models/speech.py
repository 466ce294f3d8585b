"""Speech: encoders over spectrograms and over raw sound, decoders that attend to them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.export import Dim

from harness import Case, Inputs
from suites.models.build import DYNAMIC, EVERY, VOCABULARY, Field, Make, model
from suites.models.inputs import BEGIN, END, PAD, PLACE, causal, mel, tokens, waveform
from suites.models.language import SIZES as LANGUAGE
from suites.models.weights import settle

WIDTH = 128


def whisper_config(**sizes: Any) -> Any:
    """Of Whisper: 32 positions of sound in place of 1,500."""
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
    """Two convolutions, the second of stride 2, and a transformer."""
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return Field(settle(WhisperEncoder(whisper_config(**sizes))), "last_hidden_state")


class Listening(torch.nn.Module):
    """A decoder: tokens and positions (1, L), a mask (1, 1, L, L), sound (1, S, width), to logits
    by its tied embedding."""

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
    """A transformer that attends to itself and to the sound."""
    from transformers.models.whisper.modeling_whisper import WhisperDecoder

    return Listening(settle(WhisperDecoder(whisper_config(**sizes))))


class Voxtral(torch.nn.Module):
    """Voxtral, in the parts that it runs as: sound (1, bands, frames) becomes embeddings, which
    stand before those of the text; logits of both."""

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
    """Whisper's encoder, a projector over four frames at a time, Llama."""
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
    return settle(VoxtralForConditionalGeneration(config))


def voxtral(**sizes: Any) -> torch.nn.Module:
    """All of it, over sound and text at once."""
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
    """A conformer after three convolutions of stride 2, and a head for every frame."""
    from transformers import ParakeetCTCConfig, ParakeetForCTC

    config = ParakeetCTCConfig(
        encoder_config=_parakeet_encoder(**sizes), vocab_size=64, pad_token_id=63
    )
    return Field(settle(ParakeetForCTC(config), mel(80, 80).mT), "logits")


class Transducer(torch.nn.Module):
    """A step of Parakeet's TDT: token (1, 1), states of the LSTM (layers, 1, width) and a frame
    (1, 1, width), to logits of tokens and durations and the next states."""

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
    """The prediction network and the joint network; the encoder is CTC's."""
    from transformers import ParakeetForTDT, ParakeetTDTConfig

    own = {"vocab_size": 64, "blank_token_id": 63, "decoder_hidden_size": WIDTH}
    config = ParakeetTDTConfig(
        **{"encoder_config": _parakeet_encoder(num_hidden_layers=1), **own, **sizes}
    )
    return Transducer(settle(ParakeetForTDT(config)))


def wav2vec2(**sizes: Any) -> torch.nn.Module:
    """Seven convolutions over raw sound, positions by a grouped convolution, a transformer."""
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
    return Field(settle(Wav2Vec2ForCTC(Wav2Vec2Config(**{**own, **sizes}))), "logits")


class Dictation(torch.nn.Module):
    """Moonshine: sound (1, samples), tokens and positions (1, L), a mask (1, 1, L, L), to logits
    (1, L, vocabulary)."""

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
    """Three convolutions over raw sound, rotary positions in encoder and decoder."""
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
    return Dictation(settle(MoonshineForConditionalGeneration(MoonshineConfig(**{**own, **sizes}))))


def spectrogram(frames: int, bands: int = 80) -> Make:
    """A mel spectrogram (1, bands, frames)."""
    return lambda: (mel(frames, bands),)


def frames_first(frames: int, bands: int = 80) -> Make:
    """The same as NeMo has it, (1, frames, bands)."""
    return lambda: (mel(frames, bands).mT.contiguous(),)


def sound(samples: int) -> Make:
    """Raw sound (1, samples)."""
    return lambda: (waveform(samples)[None],)


def _said(length: int) -> Inputs:
    return tokens(length, VOCABULARY), torch.arange(length)[None], causal(length)


def _heard() -> Inputs:
    return (*_said(12), torch.randn(1, 32, WIDTH))


def _spoken() -> Inputs:
    text = tokens(12, VOCABULARY)
    return mel(64, 128), text, torch.arange(20)[None], causal(20)


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
