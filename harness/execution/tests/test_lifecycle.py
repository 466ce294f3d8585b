"""Programs of models as an application treats them: loaded and let go of many times, several at
once, from threads, from bytes and from files. Natively, and in each of our emulations."""

from __future__ import annotations

import functools
import gc
import mmap
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from harness import Case, Tester
from harness.backend_api import Interpreter, Program, RuntimeKernels, list_native_backends
from harness.execution import container
from harness.model import registry
from harness.pipeline import speed
from harness.pipeline.route import lower
from harness.workers.memory import _trim, read_resident_bytes
from suites.models.vision import CASES

RUNTIMES = ("xnnpack:fp32", "mlx:fp32", "metal:fp32", "tosa:fp")
LIVES, THREADS, CALLS = 20, 8, 6
# Buffers that a runtime keeps for reuse, as mlx.core does, grow once; a leak continues.
ROUNDS = 3
# Memory that allocators keep of the weights of twenty lives, which are 20 MiB and more.
SLACK = 6 * 2**20
WIDE = 512

Call = Callable[[Sequence[torch.Tensor]], list[Any]]
Load = Callable[[Path], Call]


class Layers(torch.nn.Module):
    """Two layers of a mebibyte each, and what comes between."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(WIDE, WIDE)
        self.second = torch.nn.Linear(WIDE, WIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))) + x


class Remembering(Layers):
    """Its outputs contain the inputs of earlier calls."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.register_buffer("seen", torch.zeros(WIDE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.mean(0) + 1)
        return super().forward(x) + self.seen


@functools.cache
def program(target: str, name: str = "layers", seed: int = 0) -> tuple[bytes, list[torch.Tensor]]:
    """The bytes of a program, and inputs for it."""
    kinds = {"layers": Layers, "remembering": Remembering}
    if name in kinds:
        given = (torch.linspace(-1, 1, 2 * WIDE).reshape(2, WIDE),)
        case = Case(name, lambda: (kinds[name](seed), given))
    else:
        (case,) = (case for case in CASES if case.name == name)
    tester = Tester(case, target)
    lower(tester)
    assert tester.serialized.delegation.delegates
    return tester.program, list(tester.serialized.program.arrange(tester.built.calls[0]))


def from_bytes(target: str, path: Path) -> Call:
    return _loaded(target, path.read_bytes())


def from_map(target: str, path: Path) -> Call:
    """The file is mapped: natively the runtime does that with a path."""
    if is_native(target):
        return _natively(str(path))
    with path.open("rb") as file:
        return _loaded(target, memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def from_file(target: str, path: Path) -> Call:
    """The runtime reads the parts that it needs when it needs them."""
    if not is_native(target):
        pytest.skip("our interpreter reads bytes; who opens the file is no matter")
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    module = _load_for_executorch(str(path))
    return lambda inputs: [value.clone() for value in module.forward(list(inputs))]


def _loaded(target: str, data: bytes | memoryview) -> Call:
    if is_native(target):
        return _natively(data)
    backend: Any = registry.backend(target.partition(":")[0])
    parsed = Program(container.read(data))
    interpreter = Interpreter(parsed, {backend.delegate: backend.loader(parsed)}, RuntimeKernels())
    return lambda inputs: interpreter(tuple(inputs))


def _natively(data: Any) -> Call:
    from executorch.runtime import Runtime

    loaded = Runtime.get().load_program(data)
    method = loaded.load_method("forward")
    assert method is not None

    def call(inputs: Sequence[torch.Tensor], kept: Any = loaded) -> list[Any]:
        return [value.clone() for value in method.execute(list(inputs))]

    return call


def is_native(target: str) -> bool:
    backend: Any = registry.backend(target.partition(":")[0])
    return backend.delegate in list_native_backends()


def equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) > 0 and all(map(torch.equal, one, other))


@pytest.fixture(scope="module", autouse=True)
def _settled() -> None:
    """Freeze existing objects, so that later counts of objects do not walk them."""
    speed.tune_garbage_collector()


def held() -> int:
    gc.collect()
    _trim()
    return read_resident_bytes()


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "program.pte"
    path.write_bytes(data)
    return path


def programs(*names: str) -> Any:
    """Each runtime with a small program; in a nightly run also with models."""
    day = [pytest.param(target, name, id=f"{target}-{name}")
           for target in RUNTIMES for name in names]  # fmt: skip
    night = [
        pytest.param(
            # Metal takes its convolution where sizes vary only.
            target,
            "deit/dynamic" if target == "metal:fp32" else "deit/tiny",
            marks=pytest.mark.nightly,
            id=f"{target}-deit",
        )
        for target in RUNTIMES
    ]
    return pytest.mark.parametrize(("target", "name"), [*day, *night])


@pytest.mark.one_of(8)
@programs("layers")
@pytest.mark.parametrize("load", [from_bytes, from_map, from_file])
def test_repeated_lives_are_equal_and_leave_nothing_behind(
    tmp_path: Path, target: str, name: str, load: Callable[[str, Path], Call]
) -> None:
    data, inputs = program(target, name)
    path = saved(tmp_path, data)
    expected = load(target, path)(inputs)
    grown = []
    for _ in range(ROUNDS):
        before = held()
        for _ in range(LIVES):
            assert equal(load(target, path)(inputs), expected)
        grown.append(held() - before)
        if grown[-1] < SLACK:
            return
    raise AssertionError(f"each {LIVES} lives left something behind: {grown} bytes")


@programs("layers")
def test_ways_to_load_agree(tmp_path: Path, target: str, name: str) -> None:
    data, inputs = program(target, name)
    path = saved(tmp_path, data)
    expected = from_bytes(target, path)(inputs)
    assert equal(from_map(target, path)(inputs), expected)
    if is_native(target):
        assert equal(from_file(target, path)(inputs), expected)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("target", RUNTIMES)
def test_two_programs_take_turns(tmp_path: Path, target: str) -> None:
    """Of the same shapes and with other weights, and two of one file."""
    paths = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        data, inputs = program(target, seed=seed)
        paths.append(saved(folder, data))
    alone = [from_bytes(target, path)(inputs) for path in paths]
    assert not equal(*alone)
    calls = [from_bytes(target, path) for path in (*paths, *paths)]
    for _ in range(CALLS):
        for call, expected in zip(calls, (*alone, *alone), strict=True):
            assert equal(call(inputs), expected)


@pytest.mark.parametrize("target", ["xnnpack:fp32", "mlx:fp32", "metal:fp32"])
def test_programs_of_one_file_have_each_their_own_state(tmp_path: Path, target: str) -> None:
    data, inputs = program(target, "remembering")
    path = saved(tmp_path, data)
    alone = [call(inputs) for call in [from_bytes(target, path)] for _ in range(3)]
    assert not equal(alone[0], alone[1])
    one, other = from_bytes(target, path), from_bytes(target, path)
    for expected in alone:
        assert equal(one(inputs), expected)
    # It was not called meanwhile.
    for expected in alone:
        assert equal(other(inputs), expected)
    # The file is unchanged.
    assert equal(from_bytes(target, path)(inputs), alone[0])


@programs("layers")
@pytest.mark.one_of(2)
def test_threads_with_a_program_each(tmp_path: Path, target: str, name: str) -> None:
    data, inputs = program(target, name)
    path = saved(tmp_path, data)
    expected = from_bytes(target, path)(inputs)
    start, results = threading.Barrier(THREADS), [False] * THREADS
    failures: list[BaseException] = []

    def live(number: int) -> None:
        try:
            start.wait()
            call = (from_bytes if number % 2 else from_map)(target, path)
            results[number] = all(equal(call(inputs), expected) for _ in range(CALLS))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(results)


def test_a_leak_is_detected(tmp_path: Path) -> None:
    """The slack is less than the memory that twenty lives of one program would leak."""
    data, inputs = program("xnnpack:fp32")
    path = saved(tmp_path, data)
    from_bytes("xnnpack:fp32", path)(inputs)
    before = held()
    kept = [from_bytes("xnnpack:fp32", path) for _ in range(LIVES)]
    assert held() - before > 2 * SLACK
    assert len(kept) == LIVES
