"""The processor in a record, from /proc/cpuinfo of several machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.record.host import Environment, describe_vectors, read_environment

_INTEL = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse2 sse4_1 avx"
_ARM = "processor\t: 0\nFeatures\t: fp asimd"


@pytest.mark.parametrize(
    ("text", "machine", "expected"),
    [
        (f"{_INTEL} avx2 avx512f avx512_bf16\n", "x86_64", "x86_64/avx512f"),
        (f"{_INTEL} avx2\n", "x86_64", "x86_64/avx2"),
        # A second core, and a flag that only resembles an extension.
        (f"{_INTEL}\nflags\t: avx2\nbugs\t: avx512f\n", "x86_64", "x86_64/avx"),
        (f"{_ARM}\n", "aarch64", "aarch64/asimd"),
        (f"{_ARM} sve sve2\n", "aarch64", "aarch64/sve"),
        (f"{_INTEL} avx2\n", "riscv64", "riscv64/"),
        ("", "x86_64", "x86_64/"),
    ],
)
def test_the_widest_vectors_of_a_processor(
    text: str, machine: str, expected: str, tmp_path: Path
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    assert describe_vectors(cpuinfo, machine) == expected


def test_where_linux_lists_nothing(tmp_path: Path) -> None:
    assert describe_vectors(tmp_path / "absent", "arm64") == "arm64/"


def test_a_record_has_them_and_older_ones_load_without(tmp_path: Path) -> None:
    assert read_environment(tmp_path).vectors == describe_vectors()
    assert Environment().vectors == ""
