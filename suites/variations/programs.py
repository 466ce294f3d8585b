"""Programs with settings of lowering, so that no pair of settings on a target is untried.

A covering array has the programs as one factor and each choice of a target as another: each program
occurs with each setting, and each two settings of different choices occur together. The programs
are those of other suites, chosen for what settings change: operators that are decomposed, memory
formats, views, several delegates, state, dynamic sizes, and operators that are not core ATen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness import Case
from harness.model.limitation import find_limitation
from harness.model.variations.covering import add_settings, cover_pairs
from harness.record.target import Target
from suites.ops import (
    activation,
    binary,
    conv,
    create,
    dynamic,
    index,
    matmul,
    norm,
    pool,
    reduce,
    shape,
)
from suites.ops.limitations import LIMITATIONS as OPS_LIMITATIONS
from suites.quant import conv as int_conv, joined, linear
from suites.quant.limitations import LIMITATIONS as QUANT_LIMITATIONS
from suites.quick import cases as quick
from suites.quick.limitations import LIMITATIONS as QUICK_LIMITATIONS

FLOAT_PROGRAMS = """
convolution/2d convolution/2d_channels_last convolution/2d_then_relu convolution/transposed_2d
linear/bias linear/shared_twice linear/dynamic_batch bmm/3d addmm/beta_alpha
scaled_dot_product_attention/plain native_layer_norm/last_dim native_group_norm/groups
_native_batch_norm_legit_no_training/after_convolution _softmax/last_dim
max_pool2d_with_indices/plain avg_pool2d/plain pixel_shuffle/factor3 pixel_unshuffle/factor2
view_copy/after_transpose permute_copy/to_channels_last_and_back slice_copy/step cat/channels_last
cat/dynamic_length stack/dim0 split_with_sizes_copy/chunk roll/dim reflection_pad2d/asymmetric
replication_pad1d/asymmetric tril/below mean/spatial_keepdim var_mean/dim amax/dims_keepdim
glu/last_dim relu/channels_last add/broadcast mul/number floor_divide/int64 rsub/alpha
index_put/first_dim embedding/2d_tokens nonzero/masked_select repeat_interleave/dim
quick/classifier quick/attention quick/state
""".split()

INTEGER_PROGRAMS = """
int_conv2d/bias int_conv2d/relu int_conv2d/channels_last int_conv2d/batch_norm int_linear/2d
int_linear/relu int_linear/dynamic_batch int_linear/two_users int_shared/residual_linear
int_shared/cat_of_layers int_model/classifier int_model/attention int_model/lstm
""".split()

_GENERAL: Mapping[str, Sequence[str]] = {
    "export": ("strict",),
    "edge verifier": ("core_aten_exceptions",),
    "memory plan": ("naive_memory", "unplanned_io"),
    "views": ("view_copies",),
}
_DIM_ORDER = {"dim order": ("skip_dim_order",)}
_DELEGATES = {"delegate data": ("inline_delegates",)}
_XNNPACK = {"partitioner": ("per_op", "one_precision"), "transform passes": ("transform_passes",)}
_QUANTIZER = ("layer_types", "symmetric_codes")

CHOICES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "portable:fp32": {**_GENERAL, **_DIM_ORDER, "decomposition": ("preserve_ops",)},
    "xnnpack:fp32": {**_GENERAL, **_DIM_ORDER, **_DELEGATES, **_XNNPACK},
    "tosa:fp": {**_GENERAL, **_DIM_ORDER, **_DELEGATES},
    "mlx:fp32": {**_GENERAL, **_DELEGATES},
    "metal:fp32": {**_GENERAL, **_DIM_ORDER, **_DELEGATES},
    "xnnpack:int8": {
        **_GENERAL,
        **_DIM_ORDER,
        **_DELEGATES,
        **_XNNPACK,
        "quantizer": (*_QUANTIZER, "operator_types", "float_linear", "qat"),
    },
    "xnnpack:int8_dynamic": {
        **_GENERAL,
        **_DIM_ORDER,
        **_DELEGATES,
        "partitioner": ("merged_dynamic", "dynamic_partitioner"),
        "transform passes": ("transform_passes",),
        "quantizer": (*_QUANTIZER, "operator_types", "float_linear"),
    },
    "tosa:int": {
        **_GENERAL,
        **_DIM_ORDER,
        **_DELEGATES,
        "quantizer": (*_QUANTIZER, "io", "one_weight_scale", "qat"),
    },
}
"""The settings of each choice of a target: what ``list_choices`` returns, which a test compares.
Asking the backends here would import all partitioners in every collection."""

_SUITES = (activation, binary, conv, create, dynamic, index, matmul, norm, pool, reduce, shape,
           int_conv, joined, linear, quick)  # fmt: skip
_BY_NAME = {case.name: case for suite in _SUITES for case in suite.CASES}

_LIMITATIONS = (*OPS_LIMITATIONS, *QUANT_LIMITATIONS, *QUICK_LIMITATIONS)

PLAIN_SHARE = 50
"""A plain run has one of this many cells."""


def list_programs(target: Target) -> list[str]:
    """Return the programs that have no limitation on a target."""
    programs = INTEGER_PROGRAMS if target.recipe.startswith("int") else FLOAT_PROGRAMS
    return [
        name for name in programs if find_limitation(_LIMITATIONS, _BY_NAME[name], target) is None
    ]


def _vary(targets: Iterable[str]) -> dict[str, list[Target]]:
    """Return the varied targets of each program."""
    found: dict[str, list[Target]] = {name: [] for name in (*FLOAT_PROGRAMS, *INTEGER_PROGRAMS)}
    for text in targets:
        target = Target.parse(text)
        factors = [list_programs(target), *(("", *names) for names in CHOICES[text].values())]
        for program, *row in cover_pairs(factors):
            names = [name for name in row if name]
            if names:
                found[program].append(add_settings(target, names))
    return found


def _make_cases() -> list[Case]:
    cases, number = [], 0
    for name, targets in _vary(CHOICES).items():
        spelled = [str(target) for target in targets]
        plain = [text for place, text in enumerate(spelled, number) if place % PLAIN_SHARE == 0]
        number += len(spelled)
        original = _BY_NAME[name]
        cases.append(
            replace(
                original,
                name=f"varied/{name.replace('/', '_')}",
                tags=original.tags | {"varied"},
                targets="|".join(spelled),
                plain_targets="|".join(plain),
            )
        )
    return cases


CASES = _make_cases()
