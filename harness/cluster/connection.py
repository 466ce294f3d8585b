"""Dask's client, as far as a session needs it: who is there, what is sent, what is heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker
from distributed.security import Security

from harness.cluster.tls import restrict
from harness.cluster.worker import quiet, run_unit
from harness.errors import ConformError

_SECONDS = 10
# Of what Dask says of a failure, which may have a graph in it.
_LONGEST = 300


class FarmLost(ConformError):
    """The scheduler is gone, or no worker came back."""


@dataclass(frozen=True)
class Answer:
    """What came of work that was sent.

    Attributes:
        text: the worker's answer; None where there is none.
        problem: why there is none.
    """

    text: str | None
    problem: str = ""


class Connection:
    """A connection to a scheduler. What is heard comes in a thread of Dask's."""

    def __init__(self, address: str, security: Security | None) -> None:
        """Connect.

        Raises:
            FarmLost: there is no scheduler, or it does not take our keys.
        """
        quiet()
        restrict(session=True)
        self.address = address
        self._futures: dict[str, Any] = {}
        try:
            self._client: Any = Client(  # type: ignore[no-untyped-call]
                address, security=security, timeout=_SECONDS, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise FarmLost(f"no scheduler answers at {address}: {error}") from error

    @property
    def is_alive(self) -> bool:
        """Whether the scheduler is there."""
        return bool(self._client.status == "running")

    @property
    def dashboard(self) -> str:
        """Dask's own page, as the scheduler's machine sees it; empty where it has none."""
        port = self._client.scheduler_info().get("services", {}).get("dashboard")
        return "" if port is None else f"http://127.0.0.1:{port}/status"

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """What the scheduler knows of its workers, by address.

        Raises:
            FarmLost: it is gone.
        """
        try:
            about = self._client.sync(self._client.scheduler.identity, n_workers=-1)
            found: Mapping[str, Mapping[str, Any]] = about["workers"]
            return found
        except (OSError, TimeoutError, AttributeError, RuntimeError) as error:
            raise FarmLost(f"the scheduler at {self.address} is gone") from error

    def listen(self, topic: str, heard: Callable[[Mapping[str, Any]], None]) -> None:
        """Hear what workers log under a topic."""
        self._client.subscribe_topic(topic, lambda event: heard(event[1]))

    def send(
        self,
        key: str,
        text: str,
        resources: Mapping[str, float],
        workers: Sequence[str],
        answered: Callable[[Answer], None],
    ) -> None:
        """Have a worker run a unit.

        Args:
            key: its name.
            text: the unit, as JSON.
            resources: what the worker must have announced.
            workers: addresses to choose from; empty for all.
            answered: is called once, in a thread of Dask's.
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
            answered(_answer(future))

        future.add_done_callback(done)

    def cancel(self, key: str) -> None:
        """Call work back that nobody runs; it is answered as cancelled."""
        if (future := self._futures.get(key)) is not None:
            future.cancel()

    def close(self) -> None:
        """Leave; the scheduler forgets what was not answered."""
        self._client.close(timeout=2)


def _answer(future: Any) -> Answer:
    if future.status == "finished":
        return Answer(str(future.result()))
    if future.status != "error":
        return Answer(None, f"it is {future.status}")
    try:
        error = future.exception()
    except Exception as unread:
        return Answer(None, f"Dask says what is not read here: {unread}")
    if isinstance(error, KilledWorker):
        return Answer(None, "it died")
    first = str(error).strip().partition("\\n")[0]
    return Answer(None, f"Dask says: {first[:_LONGEST]}")
