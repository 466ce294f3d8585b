"""The networks do their job in eager PyTorch: their weights and inputs are prepared correctly."""

from __future__ import annotations

import pytest
import torch

from harness import Cell, check
from harness.model.case import Built, Case
from harness.record.cell import Status
from harness.vendors.versions import describe_missing_packages
from suites.trained import images, pitch, sentences, sounds, voices

_CASES = {case.name: case for module in (images, pitch, sentences, voices) for case in module.CASES}


def build(name: str) -> Built:
    case: Case = _CASES[name]
    if missing := describe_missing_packages(case.requires):
        pytest.skip(missing)
    return case.make()


def run(built: Built) -> list[torch.Tensor]:
    """Return the first output of each call."""
    with torch.no_grad():
        outputs = [built.module(*call) for call in built.calls]
    return [each if isinstance(each, torch.Tensor) else each[0] for each in outputs]


def test_efficientnet_names_the_photographs() -> None:
    found = [int(scores.argmax()) for scores in run(build("efficientnet_lite0/photographs"))]
    # Egyptian cat, espresso, missile, daisy, tripod, palace, moped: ImageNet's numbers. None of
    # the thousand is an astronaut.
    assert found[:5] + found[6:] == [285, 967, 657, 985, 872, 698, 665]


def test_the_proposal_network_finds_the_face() -> None:
    whole, _ = run(build("mtcnn_pnet/portrait"))
    row, column = divmod(int(whole[0, 1].argmax()), whole.shape[-1])
    assert whole.max() > 0.99
    assert 2 <= row <= 6
    assert 9 <= column <= 13


def test_the_face_network_tells_faces_from_other_things() -> None:
    for scores in run(build("mtcnn_onet/faces")):
        assert (scores[::2, 1] > 0.9).all()
        assert (scores[1::2, 1] < 0.1).all()


def test_the_detector_hears_speech_and_no_speech_in_noise() -> None:
    speech, noise = run(build("silero_vad/speech"))
    assert (speech > 0.6).all()
    assert (noise < 0.1).all()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The tensor attributes")  # torch's, of an LSTM's weights
@pytest.mark.parametrize("target", ["xnnpack:int8", "tosa:int"])
def test_the_detector_in_8_bits_needs_its_spectrum_in_float(target: str) -> None:
    case = _CASES["silero_vad/speech"]
    built = build(case.name)
    assert case.calibration is not None
    inputs, calibration = list(built.calls), list(case.calibration())

    def run_check(*kept: str) -> Cell:
        (cell,) = check(
            built.module, inputs, target, calibration=calibration, keep_float=kept,
            metric=case.metric,
        )  # fmt: skip
        assert cell.status is Status.PASSED, cell.error
        return cell

    whole, mixed = run_check(), run_check("spectrum")
    assert whole.is_degraded
    assert not mixed.is_degraded
    assert [metric.value for metric in mixed.metrics] == [0.0]
    assert mixed.quality is not None
    assert mixed.quality.sqnr_db > 30


def test_embeddings_of_a_voice_are_the_nearest() -> None:
    first, second = run(build("resemblyzer/voices"))
    similarity = first @ second.T
    assert similarity.argmax(1).tolist() == list(range(len(voices.VOICES)))


@pytest.mark.parametrize(
    ("name", "lowest", "step"),
    [("crepe_tiny/tones", 1997.38, 20.0), ("fcpe/tones", 2051.15, 7100.14 / 359)],
)
def test_pitch_is_that_of_the_tones(name: str, lowest: float, step: float) -> None:
    tones = run(build(name))[:3]
    for activations, frequency in zip(tones, (110.0, 196.0, 440.0), strict=True):
        cents = lowest + step * pitch.decode(activations)
        found = 10 * 2 ** (cents / 1200)
        assert found.median().item() == pytest.approx(frequency, rel=0.01)


def test_breath_is_the_same_each_time() -> None:
    if missing := describe_missing_packages(sounds.REQUIRED):
        pytest.skip(missing)
    once = sounds.speak(sounds.SENTENCES[0], "en-us+whisper")
    sounds.speak(sounds.SENTENCES[1], "en-us+f2")
    sounds.speak.cache_clear()
    assert torch.equal(sounds.speak(sounds.SENTENCES[0], "en-us+whisper"), once)


def test_sentences_of_the_same_meaning_are_the_nearest() -> None:
    vectors = torch.cat(run(build("minilm/sentences")))
    similarity = (vectors @ vectors.T).fill_diagonal_(0)
    assert similarity.argmax(1).tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_cells_without_their_packages_say_what_to_install() -> None:
    from dataclasses import replace

    from harness import Status, run_cell

    case = replace(_CASES["silero_vad/speech"], requires=("no-such-package==1.0",))
    cell = run_cell(case, "portable:fp32")
    assert cell.status is Status.UNAVAILABLE
    assert "pip install --no-deps no-such-package==1.0" in (cell.error or "")
