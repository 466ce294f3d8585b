"""An environment of a release has everything of this one but ExecuTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import ReleaseError
from harness.extras.releases import environment
from harness.extras.releases.available import HERE, Release, parse_release
from harness.extras.releases.tests.wheels import wheel

ASKED = """
import importlib.metadata as m, importlib.util as u, executorch, msgspec
print(m.version("executorch"), len(list(executorch.__path__)))
print(u.find_spec("executorch.exir"), msgspec.__version__)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "environments_folder", lambda: tmp_path / "kept")


def asked(interpreter: Path) -> list[str]:
    ended = subprocess.run(
        [interpreter, "-c", ASKED],
        capture_output=True,
        text=True,
        check=True,
        cwd=interpreter.parent,
    )
    return ended.stdout.split()


@pytest.mark.nightly
def test_an_environment_differs_only_in_the_release(tmp_path: Path) -> None:
    release = parse_release(str(wheel(tmp_path, "9.0.0")))
    said: list[str] = []
    interpreter = environment.ensure_interpreter(release, said.append)
    import msgspec

    # Not a module of the installed executorch is found: it is a namespace package.
    assert asked(interpreter) == ["9.0.0", "1", "None", msgspec.__version__]
    assert len(said) == 1
    assert "9.0.0" in said[0]
    # The second time it is there.
    assert environment.ensure_interpreter(release, said.append) == interpreter
    assert len(said) == 1
    assert environment.list_environments() == {"9.0.0"}
    # This environment is unchanged.
    assert importlib_version() != "9.0.0"


def importlib_version() -> str:
    ended = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('executorch'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip()


@pytest.mark.nightly
def test_another_wheel_of_the_same_version_is_another_environment(tmp_path: Path) -> None:
    first = environment.ensure_interpreter(
        parse_release(str(wheel(tmp_path, "9.0.0"))), lambda said: None
    )
    other = wheel(tmp_path, "9.0.0", requires=("packaging>=1",))
    assert environment.ensure_interpreter(parse_release(str(other)), lambda said: None) != first


def test_the_installed_release_needs_no_environment() -> None:
    assert environment.ensure_interpreter(Release(HERE)) == Path(sys.executable)


@pytest.mark.nightly
def test_a_failed_installation_is_reported_and_removed(tmp_path: Path) -> None:
    broken = tmp_path / "executorch-9.0.1-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    with pytest.raises(ReleaseError, match="cannot install"):
        environment.ensure_interpreter(parse_release(str(broken)), lambda said: None)
    assert environment.list_environments() == set()


@pytest.mark.nightly
def test_a_requirement_that_is_met_is_not_installed_again(tmp_path: Path) -> None:
    path = wheel(tmp_path, "9.0.2", requires=("packaging>=20", "nothing-like-it; extra == 'x'"))
    interpreter = environment.ensure_interpreter(parse_release(str(path)), lambda said: None)
    site = next((interpreter.parents[1] / "lib").glob("*/site-packages"))
    assert (site / "packaging").is_symlink()
    assert not (site / "executorch").is_symlink()
