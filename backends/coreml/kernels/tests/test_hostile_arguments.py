"""Arguments of a malformed program end in ProgramError: no crash, no hang, no huge allocation."""

import numpy
import pytest
import torch

from backends.coreml.kernels import KERNELS, call_kernel
from backends.coreml.kernels.tests.folding import load_mil
from harness import ProgramError, UnsupportedProgram

HUGE = 2**31 - 1


def get_input_names(name):
    versions = load_mil().registry.core_ops[name].values()
    return sorted({key for version in versions for key in version.input_spec.input_types})


def draw_value(generator):
    """Return a value of a random kind, of which few fit an input."""
    ints = [-HUGE - 1, -3, -1, 0, 1, 2, 3, 7, HUGE]
    sizes = generator.choice([0, 1, 2, 3], generator.integers(0, 5)).tolist()
    dtypes = [torch.float32, torch.float16, torch.int32, torch.bool, torch.uint16, torch.int8]
    dtype = dtypes[generator.integers(len(dtypes))]
    makers = [
        lambda: int(generator.choice(ints)),
        lambda: bool(generator.integers(2)),
        lambda: float(generator.choice([0.0, -1.0, 0.5, 1e30, numpy.inf, numpy.nan])),
        lambda: str(generator.choice(["", "same", "custom", "fp16", "reverse", "EXACT", "sum"])),
        lambda: None,
        dict,
        lambda: torch.zeros(sizes, dtype=dtype),
        lambda: torch.ones(sizes, dtype=dtype),
        lambda: torch.tensor(generator.choice(ints, generator.integers(0, 5)), dtype=torch.int32),
        lambda: [torch.ones(sizes, dtype=dtype)] * int(generator.integers(0, 3)),
        lambda: generator.choice(ints, generator.integers(0, 4)).tolist(),
    ]
    return makers[generator.integers(len(makers))]()


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_random_arguments(name):
    generator = numpy.random.default_rng(len(name) * 1000 + sum(map(ord, name)))
    names = get_input_names(name)
    outcomes = set()
    for _ in range(60):
        chosen = [key for key in names if generator.random() < 0.8]
        try:
            call_kernel(name, {key: draw_value(generator) for key in chosen})
            outcomes.add("computed")
        except ProgramError as error:
            outcomes.add("refused" if str(error).startswith(f"MIL operation {name}: ") else "?")
    assert outcomes - {"computed"} == {"refused"}


X = torch.ones(1, 1, 4, 4)
BIG = torch.ones(1, 1, 1, 1)
SIDES = torch.tensor([HUGE, HUGE], dtype=torch.int32)
LARGE = {
    "fill": {"shape": torch.tensor([HUGE, HUGE], dtype=torch.int32), "value": 1.0},
    "range_1d": {"start": 0.0, "end": 1e30, "step": 1.0},
    "one_hot": {"indices": torch.zeros(4, dtype=torch.int32), "one_hot_vector_size": HUGE},
    "tile": {"x": X, "reps": torch.tensor([1, 1, HUGE, HUGE])},
    "pad": {"x": X, "pad": torch.tensor([HUGE, HUGE, HUGE, HUGE])},
    "conv": {"x": X, "weight": BIG, "pad_type": "custom", "pad": torch.tensor([HUGE] * 4)},
    "conv_transpose": {"x": X, "weight": BIG, "strides": SIDES},
    "max_pool": {"x": X, "kernel_sizes": [1, 1], "pad_type": "custom", "pad": [HUGE] * 4},
    "avg_pool": {"x": X, "kernel_sizes": [1, 1], "pad_type": "custom", "pad": [HUGE] * 4},
    "l2_pool": {"x": X, "kernel_sizes": [1, 1], "pad_type": "custom", "pad": [HUGE] * 4},
    "local_response_norm": {"x": X, "size": HUGE * 2**20},
    "resize_bilinear": {"x": X, "target_size_height": HUGE, "target_size_width": HUGE},
    "resize_nearest_neighbor": {"x": X, "target_size_height": HUGE, "target_size_width": HUGE},
    "resize": {"x": X, "shape": SIDES, "resized_dims": 2},
    "upsample_bilinear": {"x": X, "scale_factor_height": 1e9, "scale_factor_width": HUGE},
    "upsample_nearest_neighbor": {"x": X, "scale_factor_height": 1e9, "scale_factor_width": HUGE},
    "crop_resize": {"x": X, "boxes": torch.ones(1, 4), "target_height": HUGE,
                    "target_width": HUGE},
    "affine": {"x": X, "transform_matrix": torch.ones(1, 6), "output_height": HUGE,
               "output_width": HUGE, "sampling_mode": "bilinear", "padding_mode": "constant",
               "padding_value": 0.0, "coordinates_mode": "normalized_minus_one_to_one",
               "align_corners": True},
    "space_to_batch": {"x": X, "block_shape": [1, 1], "paddings": [[HUGE, 0], [HUGE, 0]]},
    "non_maximum_suppression": {"boxes": torch.ones(4, 2, 4), "scores": torch.ones(4, 2, 3),
                                "iou_threshold": 0.5, "score_threshold": 0.0,
                                "max_boxes": HUGE * 2**20},
    "add": {"x": torch.ones(1).expand(2**20, 1), "y": torch.ones(1).expand(1, 2**20)},
    "select": {"cond": torch.ones(1, 1, dtype=torch.bool).expand(2**20, 1), "a": 1.0,
               "b": torch.ones(1).expand(1, 2**20)},
    "matmul": {"x": torch.ones(1).expand(2**20, 1), "y": torch.ones(1).expand(1, 2**20)},
    "linear": {"x": torch.ones(1).expand(2**20, 1), "weight": torch.ones(1).expand(2**20, 1)},
    "gather": {"x": torch.ones(1).expand(2, 2**20),
               "indices": torch.zeros(1, dtype=torch.int32).expand(2**20)},
    "gather_nd": {"x": torch.ones(1).expand(2, 2**20),
                  "indices": torch.zeros(1, dtype=torch.int32).expand(2**20, 1)},
    "sliding_windows": {"x": torch.ones(1).expand(2**24), "axis": 0, "size": 2**23},
    "einsum": {"values": [torch.ones(1).expand(2**20, 1, 1), torch.ones(1).expand(1, 1, 2**20)],
               "equation": "chw,whr->chr"},
    "scaled_dot_product_attention": dict.fromkeys(
        ("query", "key", "value"), torch.ones(1).expand(1, 2**20, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_large_results_are_refused_before_they_are_made(name):
    with pytest.raises(
        UnsupportedProgram, match=f"MIL operation {name}: a tensor of shape .* more"
    ):
        call_kernel(name, LARGE[name])


def test_messages_name_the_operation_and_the_cause():
    cases = {
        "cast": ({"x": X, "dtype": "fp8"}, "'fp8' is not one of the types"),
        "reduce_sum": ({"x": X, "axes": [9]}, "axis 9 is out of range for 4 dimensions"),
        "concat": ({"values": [], "axis": 0}, "concat of no tensors"),
        "split": ({"x": X, "axis": 2, "num_splits": 3}, "cannot split 4 elements into 3"),
        "conv": ({"x": X, "weight": torch.ones(1, 2, 1, 1)}, "Given groups=1"),
        "add": ({"x": X}, "missing 1 required positional argument: 'y'"),
        "resample": ({"x": X, "coordinates": X, "sampling_mode": "bilinear", "padding_mode": "odd",
                      "padding_value": 0.0, "coordinates_mode": "unnormalized",
                      "align_corners": True}, "coordinates"),
    }  # fmt: skip
    for name, (arguments, message) in cases.items():
        with pytest.raises(ProgramError) as error:
            call_kernel(name, arguments)
        assert str(error.value).startswith(f"MIL operation {name}: ")
        assert message in str(error.value)
