"""What the small models leave to the night: recipes that go to one architecture of a kind by day,
a second detector, and what takes long to say what another case says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness import Case
from suites.models import language, speech, text, vision
from suites.models.build import DYNAMIC, FURTHER, PICTURES, USUAL, model

# Where the others leave so little of the signal that zeros would pass.
_TELLING = {
    "siglip/tiny": "xnnpack:int8_dynamic|tosa:mxfp8_e4m3|metal:bf16",
    "efficientnet/tiny": "tosa:mxfp8_e4m3|metal:bf16",
}


def _at_night(case: Case, targets: str) -> Case:
    tags = (case.tags - {"model"}) | {"night_model", "nightly"}
    return replace(case, name=f"{case.name.split('/')[0]}/night", targets=targets, tags=tags)


CASES: list[Case] = [
    *(
        _at_night(case, _TELLING.get(case.name, FURTHER))
        for field in (language, speech, text, vision)
        for case in field.CASES
        if case.targets in (USUAL, PICTURES)
    ),
    _at_night(
        model("rt_detr/tiny", vision.rt_detr, vision.pictures(vision.SIDE)),
        vision.DETECTORS,
    ),
    _at_night(model("sam2/tiny", vision.sam2, vision.pictures(vision.SIDE)), "tosa:fp"),
    _at_night(
        # TensorFlow's padding asks Python what sizes are.
        vision.growing("mobilenet_v2/dynamic", partial(vision.mobilenet_v2, tf_padding=False)),
        DYNAMIC,
    ),
]
