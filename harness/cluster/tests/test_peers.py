"""Peers of a cluster, with keys or on loopback, cannot run their own code in it."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, WorkerPlugin

from harness.cluster.tests.farms import local_farm, run, write_suite
from harness.cluster.worker import INFO_KEY


class Plugin(WorkerPlugin):
    def __init__(self, place: str) -> None:
        self.place = place

    def setup(self, worker: Any) -> None:
        os.mkdir(self.place)


class Pickled:
    """Creates a folder when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        made = f"__import__('os').mkdir({self.place!r})"
        return eval, (f"__import__('os').getpid() != {os.getpid()} and {made}",)


def upload(client: Any, place: str) -> None:
    file = Path(f"{place}_code.py")
    # Dask has the client import it as well.
    file.write_text(f"import os\nif os.getpid() != {os.getpid()}: os.mkdir({place!r})\n")
    client.upload_file(str(file))


ATTEMPTS: dict[str, Callable[[Any, str], Any]] = {
    "a task": lambda client, place: client.submit(os.mkdir, place, pure=False).result(10),
    "an argument": lambda client, place: client.submit(len, Pickled(place), pure=False).result(10),
    "run": lambda client, place: client.run(os.mkdir, place),
    "run in nannies": lambda client, place: client.run(os.mkdir, place, nanny=True),
    "run in the scheduler": lambda client, place: client.run_on_scheduler(os.mkdir, place),
    "a plugin": lambda client, place: client.register_plugin(Plugin(place)),
    "a file": upload,
    "data": lambda client, place: client.scatter(Pickled(place)),
}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # Dask's, of peers that do not answer
def test_no_dask_message_executes_code_of_a_peer(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    write_suite(root, plain=2)
    with local_farm(root, 1) as (address, _):
        for number, (name, attempt) in enumerate(ATTEMPTS.items()):
            place = tmp_path / f"harm{number}"
            with Client(address, timeout=10, set_as_default=False) as client:  # type: ignore[no-untyped-call]
                workers = client.scheduler_info()["workers"].values()
                assert all(INFO_KEY in worker for worker in workers)
                with contextlib.suppress(Exception):
                    attempt(client, str(place))
            assert not place.exists(), name
        ran = run(root, "run", "--cluster", address)
    assert ran.returncode == 0, "the cluster still works"
