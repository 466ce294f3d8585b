"""Sources are read, compiled once, and refused with a reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.metal.host import (
    CompileError,
    LaunchError,
    Library,
    SourceError,
    dispatch_array,
    dispatch_single,
    toolchain,
)
from backends.metal.host.kernel_source import parse

ROOT = Path(__file__).parents[4]

SOURCE = """inline float twice(float x) { return 2 * x; }
[[max_total_threads_per_threadgroup(64)]]
kernel void generated_kernel(
    device float* out_ptr0,
    device const float* in_ptr0 [[buffer(2)]],
    constant long& ks0 [[buffer(1)]],
    uint2 thread_pos [[thread_position_in_grid]]
) {
  threadgroup float tmp_acc_0[4], tmp_acc_1;
  threadgroup float* p = tmp_acc_0;
  out_ptr0[thread_pos.x] = twice(in_ptr0[thread_pos.x]) + ks0;
}
"""


def test_signature():
    source = parse(SOURCE)
    (kernel,) = source.kernels
    assert kernel.max_threads == 64
    assert kernel.shared == ("tmp_acc_0", "tmp_acc_1")
    assert [(p.name, p.kind, p.type, p.slot) for p in kernel.arguments] == [
        ("out_ptr0", "output", "float", 0),
        ("ks0", "scalar", "long", 1),
        ("in_ptr0", "input", "float", 2),
    ]
    assert source.preamble.startswith("inline float twice")
    assert source.body.count("\n") == SOURCE.count("\n") - 1
    assert "threadgroup float* p" in source.body


@pytest.mark.parametrize(
    "head",
    [
        "[[max_total_threads_per_threadgroup(64)]]\n  kernel void",
        "[[kernel]] [[max_total_threads_per_threadgroup(64)]] void",
        "[[max_total_threads_per_threadgroup(64)]] [[kernel]] void",
    ],
)
def test_ways_to_declare_a_kernel(head):
    source = f"int helper;\n{head} k(device float* p, uint i [[thread_position_in_grid]]) {{\n}}"
    (kernel,) = (parsed := parse(source)).kernels
    assert (kernel.name, kernel.max_threads) == ("k", 64)
    assert parsed.preamble.strip() == "int helper;"
    Library(source).prepare()


def test_templates_are_no_kernels():
    source = "template <typename T>\nkernel void t(device T* p) {}\n" + SOURCE
    assert [kernel.name for kernel in parse(source).kernels] == ["generated_kernel"]


def test_arguments_by_slot():
    out = np.zeros(3, np.float32)
    data = np.arange(3, dtype=np.float32)
    Library(SOURCE).kernel().dispatch([out, 10, data], (3, 1, 1), (3, 1, 1))
    assert out.tolist() == [10, 12, 14]


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("int x;", "no kernel"),
        ("kernel void k(threadgroup float* p) {}", "cannot give"),
        ("kernel void k(device float* p, uint i [[vertex_id]]) {}", "vertex_id"),
        ("kernel void k(device float* p, uint i) {}", "names no memory"),
        ("kernel void k(device float* p) { if (1) {", "never closed"),
    ],
)
def test_unreadable_source(source, match):
    with pytest.raises(SourceError, match=match):
        Library(source)


def test_unknown_kernel():
    with pytest.raises(SourceError, match="defines generated_kernel"):
        Library(SOURCE).kernel("other")


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("out_ptr0[0] = undeclared;", r"source0.metal:5:.*undeclared"),
        ("double x = 1;", "poisoned"),
        ("out_ptr0[0] = metal::no_such(1.0f);", "no_such"),
        ("out_ptr0[0] = metal::simd_sum(1l);", "64-bit"),
    ],
)
def test_source_that_does_not_compile(statement, match):
    source = f"""// one
// two
kernel void k(device float* out_ptr0, uint i [[thread_position_in_grid]])
{{
  {statement}
}}"""
    with pytest.raises(CompileError, match=match) as caught:
        Library(source).prepare()
    assert "error" in caught.value.log


@pytest.mark.parametrize(
    ("answer", "what"),
    [(None, "there is no"), ("0", "is clang"), ("11", "is release 11 of GCC"), ("", "release ?")],
)
def test_no_usable_compiler(monkeypatch, tmp_path, answer, what):
    compiler = tmp_path / "compiler"
    if answer is not None:
        compiler.write_text(f"#!/bin/sh\ncat > /dev/null\necho {answer}\n")
        compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    toolchain.compiler.cache_clear()
    try:
        with pytest.raises(CompileError, match=what):
            toolchain.compiler()
    finally:
        monkeypatch.undo()
        toolchain.compiler.cache_clear()


def test_arguments_that_do_not_fit():
    kernel = Library(SOURCE).kernel()
    out = np.zeros(3, np.float32)
    frozen = out.copy()
    frozen.flags.writeable = False
    for arguments, match in [
        ([out, 1], "takes 3 arguments"),
        ([out, out, out], "ks0 is a long"),
        ([out, 1, 2], "in_ptr0 takes memory"),
        ([frozen, 1, out], "is written, its array read-only"),
        ([out, 1, np.zeros((4, 4), np.float32)[:, 1]], "is not contiguous"),
    ]:
        with pytest.raises(LaunchError, match=match):
            kernel.dispatch(arguments, (3, 1, 1), (3, 1, 1))
    with pytest.raises(LaunchError, match="1 to 64"):
        kernel.dispatch([out, 1, out], (65, 1, 1), (65, 1, 1))


def test_no_threads():
    out = np.zeros(3, np.float32)
    Library(SOURCE).kernel().dispatch([out, 1, out], (0, 1, 1), (3, 1, 1))
    assert not out.any()


def test_threadgroups_of_the_runtime():
    assert dispatch_single(10) == ((10, 1, 1), (10, 1, 1))
    assert dispatch_single(5000) == ((5000, 1, 1), (1024, 1, 1))
    assert dispatch_single(5000, 64) == ((5000, 1, 1), (64, 1, 1))
    assert dispatch_array([7, 5]) == ((7, 5, 1), (7, 146, 1))
    assert dispatch_array([100, 5]) == ((100, 5, 1), (32, 32, 1))
    assert dispatch_array([100, 5, 9]) == ((100, 5, 9), (8, 5, 25))
    assert dispatch_array([3, 197], [1, 197], 197) == ((3, 197, 1), (1, 197, 1))
    assert dispatch_array([40], [64]) == ((40, 1, 1), (64, 1, 1))
    with pytest.raises(LaunchError):
        dispatch_array([1, 1, 1, 1])


def test_sources_with_one_preamble_are_compiled_together(tmp_path):
    other = SOURCE.replace("2 * x", "3 * x")
    add = SOURCE.replace("+ ks0", "- ks0")
    library = Library(SOURCE, other, add, cache=tmp_path)
    library.prepare()
    out, data = np.zeros((3, 2), np.float32), np.ones(2, np.float32)
    for index in range(3):
        library.kernel(source=index).dispatch([out[index], 5, data], (2, 1, 1), (2, 1, 1))
    assert out[:, 0].tolist() == [7, 8, -3]
    assert len(list(tmp_path.glob("*/[0-9a-f]*.so"))) == 2


def test_compiled_once(tmp_path, monkeypatch):
    Library(SOURCE, cache=tmp_path).prepare()
    monkeypatch.setattr(toolchain, "_run", None)
    Library(SOURCE, cache=tmp_path).prepare()


def test_headers_are_read_once_and_again_where_that_is_damaged(tmp_path, monkeypatch):
    commands = []
    run = toolchain._run
    monkeypatch.setattr(toolchain, "_run", lambda given: (commands.append(given), run(given)))

    def made_for(term):
        commands.clear()
        out, data = np.zeros(1, np.float32), np.ones(1, np.float32)
        library = Library(SOURCE.replace("+ ks0", f"+ {term}"), cache=tmp_path)
        library.kernel().dispatch([out, 0, data], (1, 1, 1), (1, 1, 1))
        assert out[0] == 2 + term
        return sum("c++-header" in command for command in commands)

    assert (made_for(3), made_for(4)) == (1, 0)
    (made,) = tmp_path.glob("*/*.h.gch")
    made.write_bytes(b"gpch" + bytes(100))
    assert made_for(5) == 0


def test_a_cache_emptied_meanwhile(tmp_path):
    out = np.zeros(1, np.float32)
    for wanted in (7, 8):
        source = SOURCE.replace("2 * x", f"2 * x + {wanted}")
        Library(source, cache=tmp_path).kernel().dispatch([out, 0, out * 0], (1, 1, 1), (1, 1, 1))
        assert out[0] == wanted
        shutil.rmtree(tmp_path)


@pytest.mark.nightly
def test_processes_share_a_cache(tmp_path):
    program = (
        "import sys; from pathlib import Path; from backends.metal.host import Library\n"
        "Library(sys.argv[2], cache=Path(sys.argv[1])).prepare()"
    )
    command = [sys.executable, "-c", program, str(tmp_path), SOURCE]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.glob("*.so"))) == 2  # the runtime and the kernel
    assert not list(folder.glob(".making-*"))
