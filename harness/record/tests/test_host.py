"""The processor in a record, from /proc/cpuinfo of several machines."""

from __future__ import annotations

import importlib.metadata
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


def test_packages_of_out_of_tree_backends_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "conform_mine-1.2.dist-info"
    folder.mkdir()
    needs = "Requires-Dist: msgspec>=0.18\nRequires-Dist: compiler-that-is-missing ; extra == 'x'\n"
    (folder / "METADATA").write_text(f"Name: conform-mine\nVersion: 1.2\n{needs}")
    (folder / "entry_points.txt").write_text("[conform.backends]\nmine = conform_mine:BACKEND\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = read_environment(tmp_path).packages
    assert packages["conform-mine"] == "1.2"
    assert packages["msgspec"] == importlib.metadata.version("msgspec")
    assert "compiler-that-is-missing" not in packages


def test_a_record_has_them_and_older_ones_load_without(tmp_path: Path) -> None:
    assert read_environment(tmp_path).vectors == describe_vectors()
    assert Environment().vectors == ""
