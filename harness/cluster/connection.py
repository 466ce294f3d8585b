"""Connection of a session to a Dask scheduler: lists workers, sends work, receives events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker
from distributed.security import Security

from harness.cluster.tls import restrict_pickles
from harness.cluster.worker import run_unit, silence_dask
from harness.errors import ConformError

_SECONDS = 10
# Dask's error messages may contain a whole graph.
_MAX_CHARACTERS = 300


class ClusterLost(ConformError):
    """The scheduler is gone, or all workers are."""


@dataclass(frozen=True)
class Answer:
    """The worker's answer to sent work.

    Attributes:
        text: the answer; None if there is none.
        problem: why there is none.
    """

    text: str | None
    problem: str = ""


class Connection:
    """A connection to a scheduler. Dask calls callbacks in a thread of its own."""

    def __init__(self, address: str, security: Security | None) -> None:
        """Connect.

        Raises:
            ClusterLost: there is no scheduler, or it refuses our keys.
        """
        silence_dask()
        restrict_pickles(session=True)
        self.address = address
        self._futures: dict[str, Any] = {}
        try:
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                address, security=security, timeout=_SECONDS, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise ClusterLost(f"no scheduler answers at {address}: {error}") from error

    @property
    def is_alive(self) -> bool:
        """Whether the scheduler is connected."""
        return bool(self._client.status == "running")

    @property
    def dashboard(self) -> str:
        """URL of Dask's dashboard on the scheduler's machine; empty if it has none."""
        port = self._client.scheduler_info().get("services", {}).get("dashboard")
        return "" if port is None else f"http://127.0.0.1:{port}/status"

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """Read the scheduler's information about its workers, by address.

        Raises:
            ClusterLost: the scheduler is gone.
        """
        try:
            about = self._client.sync(self._client.scheduler.identity, n_workers=-1)
            found: Mapping[str, Mapping[str, Any]] = about["workers"]
            return found
        except (OSError, TimeoutError, AttributeError, RuntimeError) as error:
            raise ClusterLost(f"the scheduler at {self.address} is gone") from error

    def listen(self, topic: str, callback: Callable[[Mapping[str, Any]], None]) -> None:
        """Call a function with each event that workers log under a topic."""
        self._client.subscribe_topic(topic, lambda event: callback(event[1]))

    def send(
        self,
        key: str,
        text: str,
        resources: Mapping[str, float],
        workers: Sequence[str],
        on_answer: Callable[[Answer], None],
    ) -> None:
        """Send a unit of work to a worker.

        Args:
            key: name of the unit.
            text: the unit, as JSON.
            resources: resources that the worker must have.
            workers: addresses to choose from; empty for all.
            on_answer: called once, in a thread of Dask.
        """
        future = self._client.submit(
            run_unit,
            text,
            key=key,
            resources=dict(resources),
            workers=list(workers) or None,
            retries=0,
            pure=False,
        )
        self._futures[key] = future

        def done(future: Any) -> None:
            self._futures.pop(key, None)
            on_answer(_read_answer(future))

        future.add_done_callback(done)

    def cancel(self, key: str) -> None:
        """Cancel work that no worker runs; its answer is "cancelled"."""
        if (future := self._futures.get(key)) is not None:
            future.cancel()

    def close(self) -> None:
        """Disconnect; the scheduler drops unanswered work."""
        self._client.close(timeout=2)


def _read_answer(future: Any) -> Answer:
    if future.status == "finished":
        return Answer(str(future.result()))
    if future.status != "error":
        return Answer(None, f"it is {future.status}")
    try:
        error = future.exception()
    except Exception as unread:
        return Answer(None, f"Dask's error cannot be read: {unread}")
    if isinstance(error, KilledWorker):
        return Answer(None, "it died")
    first = str(error).strip().partition("\\n")[0]
    return Answer(None, f"Dask says: {first[:_MAX_CHARACTERS]}")
