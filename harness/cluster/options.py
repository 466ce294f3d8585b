"""Options of a session whose cells run on a cluster."""

from __future__ import annotations

from harness.pytest_plugin.options import SessionOption

WAIT_SECONDS = 60.0

OPTIONS = (
    SessionOption(
        name="--cluster",
        metavar="ADDRESS",
        help="Run cells on the workers of the scheduler at this address, such as "
        "tls://scheduler:8786 (conform cluster --help)",
    ),
    SessionOption(
        name="--keys",
        metavar="FOLDER",
        help="Read the cluster's TLS keys from this folder (conform cluster keys); required unless "
        "the scheduler is on this machine",
    ),
    SessionOption(
        name="--allow-mixed-workers",
        kind="flag",
        help="Accept workers whose packages or checkout differ from this one; records say what "
        "each worker has",
        old_names=("--mixed",),
    ),
    SessionOption(
        name="--cluster-wait",
        kind="limit",
        metavar="SECONDS",
        default=WAIT_SECONDS,
        default_help=f"{WAIT_SECONDS:g}",
        is_in_run=False,
        help="Wait this long for a worker while there is none",
    ),
)
