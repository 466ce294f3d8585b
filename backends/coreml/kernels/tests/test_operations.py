"""Every operation of coremltools has a kernel, or a reason for having none."""

import inspect

import pytest

from backends.coreml.kernels import KERNELS, WITHOUT_KERNEL, call_kernel
from backends.coreml.kernels.tests.folding import load_mil
from harness import UnsupportedProgram


def get_operations() -> set[str]:
    registry = load_mil().registry
    return {*registry.core_ops, *registry.dialect_ops, *registry.custom_ops}


def test_every_operation_has_a_kernel_or_a_reason():
    assert get_operations() - KERNELS.keys() - WITHOUT_KERNEL.keys() == set()


def test_no_operation_has_both():
    assert KERNELS.keys() & WITHOUT_KERNEL.keys() == set()


def test_kernels_and_reasons_are_of_operations():
    # A milproto has write_state where the builder has coreml_update_state.
    assert (KERNELS.keys() | WITHOUT_KERNEL.keys()) - get_operations() == {"write_state"}


def get_input_names(name: str) -> set[str]:
    versions = load_mil().registry.core_ops[name].values()
    return {key for version in versions for key in version.input_spec.input_types}


def test_kernels_accept_every_input():
    for name, kernel in KERNELS.items():
        parameters = inspect.signature(kernel).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            assert parameters.keys() - {"options"} <= get_input_names(name), name
        else:
            assert parameters.keys() == get_input_names(name), name


@pytest.mark.parametrize("name", sorted(WITHOUT_KERNEL))
def test_reasons_are_in_the_error(name):
    with pytest.raises(UnsupportedProgram, match=f"MIL operation {name} has no kernel: "):
        call_kernel(name, {})


def test_unknown_operation():
    with pytest.raises(UnsupportedProgram, match=r"MIL operation nope has no kernel: .* unknown"):
        call_kernel("nope", {})
