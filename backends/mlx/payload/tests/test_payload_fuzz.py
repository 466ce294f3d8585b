"""Any bytes give a graph whose references are valid, or one typed error, in a short time."""

from __future__ import annotations

import copy
import dataclasses
import functools
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings, strategies as st

from backends.mlx.payload import reader
from backends.mlx.payload.graph import MlxGraph, Node, PayloadError, SlotKind, Tid, Vid
from backends.mlx.payload.tests.payloads import NAMES, encode, graph, mlx, nodes, real, sample

# Limits of the cost of reading, for any payload.
SECONDS = 30.0
BYTES_EACH, BYTES_ANYWAY = 100, 2**18

Edit = tuple[int, int, int]
EDITS = st.lists(
    st.tuples(st.integers(0, 63), st.integers(0, 2**20), st.integers(0, 2**20)),
    min_size=1,
    max_size=6,
)


@functools.cache
def seeds() -> tuple[tuple[bytes, dict[str, bytes], mlx.MLXGraph], ...]:
    """Payloads to start from: real programs, and one with every type of node."""
    every = graph([sample(kind) for kind in nodes()], [])
    bare = graph([sample(kind, full=False) for kind in nodes()], [], init_chain_idx=1)
    made = [(encode(given), {}, given) for given in (every, bare)]
    lowered = [real(name) for name in NAMES]
    return (*((d.data, d.named_data, given) for d, given in lowered), *made)


# --- bytes

_WORDS = [*range(0, 40, 2), 1, 3, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
_WORDS += [10**6, 10**6 + 1, 2**32 - 4, 2**32 - 24]


def flip(data: bytearray, a: int, b: int) -> None:
    data[a % len(data)] ^= 1 << b % 8


def set_byte(data: bytearray, a: int, b: int) -> None:
    data[a % len(data)] = b % 256


def overwrite(code: str) -> Callable[[bytearray, int, int], None]:
    size = struct.calcsize(code)

    def edit(data: bytearray, a: int, b: int) -> None:
        place = a % max(len(data) // size, 1) * size
        # A plausible offset is as interesting as an extreme.
        value = _WORDS[b % len(_WORDS)] if b % 3 else b % len(data)
        data[place : place + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")

    return edit


def nudge(data: bytearray, a: int, b: int) -> None:
    place = a % max(len(data) // 4, 1) * 4
    value = int.from_bytes(data[place : place + 4], "little") + (b % 33 - 16)
    data[place : place + 4] = (value % 2**32).to_bytes(4, "little")


def truncate(data: bytearray, a: int, b: int) -> None:
    del data[a % len(data) :]


def cut(data: bytearray, a: int, b: int) -> None:
    start = a % len(data)
    del data[start : start + b % 64]


def splice(data: bytearray, a: int, b: int) -> None:
    other = seeds()[b % len(seeds())][0]
    start, length = (a * 4) % len(other), b % 256
    place = (a // 7 * 4) % len(data)
    data[place : place + length] = other[start : start + length]


def repeat(data: bytearray, a: int, b: int) -> None:
    start = a % len(data)
    data[start:start] = data[start : start + b % 512] * 2


_BYTE_EDITS = (flip, set_byte, *map(overwrite, "IIIHHQ"), nudge, truncate, cut, splice, repeat)


def edited_bytes(seed: int, edits: list[Edit]) -> tuple[bytes, dict[str, bytes]]:
    data, named, _ = seeds()[seed % len(seeds())]
    given = bytearray(data)
    for kind, a, b in edits:
        if given:
            _BYTE_EDITS[kind % len(_BYTE_EDITS)](given, a, b)
    # Most edits are after the header; a few replace the header.
    if len(given) >= 24 and edits[0][0] % 8:
        given[:24] = bytes(4) + b"MLX0" + struct.pack("<QQ", len(given), 0)
    return bytes(given), named


# --- graphs

_INTS = [*range(-3, 12), 31, 63, 64, 65, 127, -128, 2**15, 2**31 - 1, -(2**31)]
_FLOATS = [0.0, -0.0, 1e-30, 3e38, float("inf"), float("-inf"), float("nan")]
_TEXTS = ["", "affine", "nvfp4", "edge", "constant", "none", "tanh", "ü", "a\0b"]


def _pick(options: list[Any], number: int) -> Any:
    return options[number % len(options)]


def varied(value: Any, a: int, b: int) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return _pick(_INTS, a)
        case float():
            return _pick(_FLOATS, a)
        case str():
            return _pick(_TEXTS, a)
        case list() if not value or a % 3 == 0:
            return value[: a % (len(value) + 1)]
        case list() if a % 3 == 1:
            return value + [value[b % len(value)]] * (b % 5)
        case list():
            place = b % len(value)
            return [*value[:place], varied(value[place], b, a), *value[place + 1 :]]
        case None:
            return _pick([None, 0, 6, mlx.Tid(3), mlx.Vid(3), 1.5, [1]], a)
    changed = copy.copy(value)
    fields = dataclasses.fields(value)
    name = fields[b % len(fields)].name if fields else None
    if name is not None:
        setattr(changed, name, varied(getattr(value, name), a // 3, b // 3))
    return changed


def edit_graph(given: mlx.MLXGraph, kind: int, a: int, b: int) -> None:
    chain = given.instruction_chains[a % len(given.instruction_chains)].instructions
    place = b % max(len(chain), 1)
    match kind % 10:
        case 0 | 1 | 2 | 3 if chain:
            chain[place] = mlx.Instruction(varied(chain[place].op, a // 5, b // 5))
        case 4 if chain:
            chain.insert(a % len(chain), chain[place])
        case 5 if chain:
            del chain[place]
        case 6:
            kinds = ["IfNode", "ScanNode", *nodes()]
            chain.insert(place, mlx.Instruction(sample(_pick(kinds, a // 3), full=a % 2 == 0)))
        case 7:
            given.instruction_chains.append(mlx.InstructionChain(chain[:place]))
        case _:
            names = [field.name for field in dataclasses.fields(given)][1:]
            name = _pick(names, b)
            setattr(given, name, varied(getattr(given, name), a, b // 3))


def edited_graph(seed: int, edits: list[Edit]) -> tuple[bytes, dict[str, bytes]]:
    _, named, given = seeds()[seed % len(seeds())]
    return encode_edited(given, edits), named


def encode_edited(given: mlx.MLXGraph, edits: list[Edit]) -> bytes:
    """The payload of an edited copy; an example that cannot be written is rejected."""
    changed = copy.deepcopy(given)
    for edit in edits:
        edit_graph(changed, *edit)
    try:
        return encode(changed)
    except Exception:  # numbers out of their type's range, None where a value must be
        reject()


# --- what must hold


def survives(data: bytes, named: dict[str, bytes]) -> MlxGraph | None:
    """The graph, or None when the payload is refused as it must be."""
    loaded, said = None, ""
    tracemalloc.start()
    began = time.process_time()
    try:
        loaded = reader.load(data)
        reader.load_constants(loaded, named)
    except PayloadError as error:
        loaded, said = None, str(error)
    finally:
        seconds = time.process_time() - began
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "\n" not in said
    assert len(said) < 400
    assert seconds < SECONDS
    assert peak < BYTES_EACH * len(data) + BYTES_ANYWAY
    if loaded is not None:
        check_references(loaded)
    return loaded


def check_references(loaded: MlxGraph) -> None:
    """Every reference of a graph that loads leads somewhere."""
    for node in (node for chain in loaded.chains for node in chain):
        for item in items(node):
            if isinstance(item, Tid):
                assert 0 <= item < loaded.tensors
            if isinstance(item, Vid):
                assert 0 <= item < loaded.values
        assert all(0 <= chain < len(loaded.chains) for chain in node.chains)
    for slot in (*loaded.input_map, *loaded.output_map, *loaded.buffer_map):
        count = loaded.tensors if slot.kind is SlotKind.TENSOR else loaded.values
        assert 0 <= slot.index < count
    assert set(loaded.names) == set(range(loaded.constants))


def items(node: Node) -> Iterator[Any]:
    for value in vars(node).values():
        yield from value if isinstance(value, list) else (value,)


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:
    """Lowering and reading the schema are excluded from the measurement."""
    reader._reader()
    for data, named, _ in seeds():
        assert survives(data, named) is not None


SETTINGS = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NIGHTLY = settings(SETTINGS, derandomize=False, max_examples=10_000, print_blob=True)


@settings(SETTINGS, max_examples=400)
@given(st.integers(0, 63), EDITS)
def test_edited_bytes_load_or_are_refused(seed: int, edits: list[Edit]) -> None:
    survives(*edited_bytes(seed, edits))


@pytest.mark.nightly
@settings(SETTINGS, max_examples=400)
@given(st.integers(0, 63), EDITS)
def test_edited_graphs_load_or_are_refused(seed: int, edits: list[Edit]) -> None:
    survives(*edited_graph(seed, edits))


@settings(SETTINGS, max_examples=100)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    size = struct.pack("<QQ", 24 + len(data), 0)
    assert survives(data, {}) is None
    assert survives(bytes(4) + b"MLX0" + size + data, {}) is None


@pytest.mark.nightly
@NIGHTLY
@given(st.integers(0, 63), EDITS)
def test_many_edited_bytes(seed: int, edits: list[Edit]) -> None:
    survives(*edited_bytes(seed, edits))


@pytest.mark.nightly
@NIGHTLY
@given(st.integers(0, 63), EDITS)
def test_many_edited_graphs(seed: int, edits: list[Edit]) -> None:
    survives(*edited_graph(seed, edits))
