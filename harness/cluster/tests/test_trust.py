"""Addresses beyond loopback need keys, and pickles of peers cannot call functions."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cluster.tls import AUTHORITY_KEY, NODE_KEY, make_keys, resolve_address
from harness.errors import UsageError


def test_keys_are_created_once_and_private(tmp_path: Path) -> None:
    make_keys(tmp_path / "keys")
    for name in (AUTHORITY_KEY, NODE_KEY):
        assert (tmp_path / "keys" / name).stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="has keys already"):
        make_keys(tmp_path / "keys")


def test_addresses(tmp_path: Path) -> None:
    assert resolve_address("127.0.0.1:8786", None) == ("tcp://127.0.0.1:8786", None)
    assert resolve_address("tcp://localhost:1", None)[0] == "tcp://localhost:1"
    for address in ("10.0.0.1:8786", "tcp://host:8786", "tls://127.0.0.1:8786", "0.0.0.0:1"):
        with pytest.raises(UsageError, match="needs keys"):
            resolve_address(address, None)
    for address in ("host", "tcp://", "http://host:1", "host:many", ""):
        with pytest.raises(UsageError, match="is not an address"):
            resolve_address(address, None)
    with pytest.raises(UsageError, match=r"has no authority\.pem and no node\.pem"):
        resolve_address("tls://host:8786", tmp_path)
    make_keys(tmp_path)
    address, security = resolve_address("host:8786", tmp_path)
    assert address == "tls://host:8786"
    assert security is not None
    assert security.require_encryption
    with pytest.raises(UsageError, match="is not encrypted"):
        resolve_address("tcp://host:8786", tmp_path)


CHILD = """
import sys
from distributed.protocol import pickle
from harness.cluster.tls import restrict_pickles

restrict_pickles()
try:
    pickle.loads(bytes.fromhex(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
else:
    print("read")
"""


class Harm:
    def __reduce__(self) -> object:
        return os.mkdir, ("/nowhere/harm",)


def read(data: bytes) -> str:
    """Unpickle in a restricted process; this process stays unrestricted."""
    command = [sys.executable, "-c", CHILD, data.hex()]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_a_pickle_that_names_a_function_is_refused() -> None:
    said = read(pickle.dumps(Harm()))
    assert "is not allowed in messages of peers" in said
    assert "mkdir" in said
    assert read(pickle.dumps({"plain": [1, "data"]})) == "read"


def test_work_is_a_call_of_one_function() -> None:
    from dask._task_spec import Task

    from harness.cluster.worker import run_unit

    assert read(pickle.dumps(Task("key", run_unit, "{}"))) == "read"
    assert "system is not allowed" in read(pickle.dumps(Task("key", os.system, "true")))
