"""Nightly cases of the small models.

They cover recipes that a plain run checks on one architecture of each kind only, a second detector,
and slow cases that overlap with faster ones.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness import Case
from suites.models import language, speech, text, vision
from suites.models.build import DYNAMIC, FURTHER, PICTURES, USUAL, model

# The other targets round away so much of the signal that zeros would pass.
_CONCLUSIVE = {
    "siglip/tiny": "xnnpack:int8_dynamic|tosa:mxfp8_e4m3|metal:bf16",
    "efficientnet/tiny": "tosa:mxfp8_e4m3|metal:bf16",
}


def _make_nightly(case: Case, targets: str) -> Case:
    tags = (case.tags - {"model"}) | {"night_model", "nightly"}
    return replace(case, name=f"{case.name.split('/')[0]}/night", targets=targets, tags=tags)


CASES: list[Case] = [
    *(
        _make_nightly(case, _CONCLUSIVE.get(case.name, FURTHER))
        for field in (language, speech, text, vision)
        for case in field.CASES
        if case.targets in (USUAL, PICTURES)
    ),
    _make_nightly(
        model("rt_detr/tiny", vision.rt_detr, vision.pictures(vision.SIDE)),
        vision.DETECTORS,
    ),
    _make_nightly(model("sam2/tiny", vision.sam2, vision.pictures(vision.SIDE)), "tosa:fp"),
    _make_nightly(
        # TensorFlow's padding needs sizes as Python integers.
        vision.dynamic_pictures(
            "mobilenet_v2/dynamic", partial(vision.mobilenet_v2, tf_padding=False)
        ),
        DYNAMIC,
    ),
]
