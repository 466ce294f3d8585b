"""Security of a cluster: mutual TLS beyond loopback, and no code from peers.

Dask sends functions as pickles, and a pickle may call any function. This module refuses pickles
that name anything except :func:`harness.cluster.worker.run_unit` and Dask's wrapper of its call.
"""

from __future__ import annotations

import datetime
import io
import ipaddress
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import urlsplit

import distributed.client
import distributed.scheduler
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import pickle as protocol_pickle
from distributed.security import Security

from harness.errors import UsageError
from harness.vendors.replacements import AttributeReplacer

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority-key.pem"
NODE, NODE_KEY = "node.pem", "node-key.pem"
"""Files of ``conform cluster keys``. The authority's key signs further nodes; no part of a cluster
needs it."""

_DAYS = 365
_ALLOWED = {
    ("dask._task_spec", "Task"),
    ("harness.cluster.worker", "run_unit"),
}
# Wrappers of work that a scheduler unpickles.
_ALLOWED_IN_SCHEDULER = {("dask._expr", "Expr._reconstruct"), ("dask._expr", "LLGExpr")}
# The error with which a session learns of lost work.
_ALLOWED_IN_SESSION = {("distributed.scheduler", "KilledWorker")}
CLOSED_HANDLERS = (
    "run run_coroutine run_function upload_file update_data scatter actor_execute actor_attribute "
    "plugin-add plugin_add register_scheduler_plugin register_worker_plugin register_nanny_plugin "
    "benchmark_disk benchmark_hardware dump_cluster_state_to_url adaptive_target"
).split()
"""Handlers of Dask's servers through which peers could send code or write files."""


def make_keys(folder: Path) -> None:
    """Write a certificate authority, and a node certificate and key, valid for a year.

    Raises:
        UsageError: the folder has keys already, or cannot be written.
    """
    if any((folder / name).exists() for name in (AUTHORITY, AUTHORITY_KEY, NODE, NODE_KEY)):
        raise UsageError(f"{folder} has keys already; choose another folder, or remove them")
    authority_key, node_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("conform authority", authority_key, None, authority_key)
    node = _certificate("conform node", node_key, authority, authority_key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, key in ((AUTHORITY_KEY, authority_key), (NODE_KEY, node_key)):
            _write_secret(folder / name, key)
        for name, certificate in ((AUTHORITY, authority), (NODE, node)):
            (folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    except OSError as error:
        raise UsageError(f"cannot write keys into {folder}: {error.strerror}") from error


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    signing: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
            critical=False,
        )
        .sign(signing, hashes.SHA256())
    )


def _write_secret(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    data = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def resolve_address(address: str, keys: Path | None) -> tuple[str, Security | None]:
    """Complete an address with its protocol, and load its keys.

    Args:
        address: ``HOST:PORT``, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``.
        keys: folder of ``conform cluster keys``; None on loopback.

    Raises:
        UsageError: the address is invalid, or is beyond loopback without keys, or keys are missing.
    """
    protocol, separator, rest = address.partition("://")
    if not separator:
        protocol, rest = ("tcp" if keys is None else "tls"), address
    try:
        split = urlsplit(f"//{rest}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port = None, None
    if protocol not in ("tcp", "tls") or not host or port is None:
        raise UsageError(f"{address!r} is not an address; write it like tls://scheduler:8786")
    if keys is None:
        if protocol == "tls" or not is_loopback(host):
            raise UsageError(
                f"{address} is not on this machine and needs keys: create them once with "
                "conform cluster keys FOLDER, and give --keys FOLDER to all parts of the cluster"
            )
        return f"tcp://{rest}", None
    if protocol == "tcp":
        raise UsageError(f"{address} is not encrypted; with --keys use tls://{rest}")
    missing = [name for name in (AUTHORITY, NODE, NODE_KEY) if not (keys / name).is_file()]
    if missing:
        raise UsageError(
            f"{keys} has no {' and no '.join(missing)}; create keys with: conform cluster keys"
        )
    own = {f"tls_{part}_{kind}": str(keys / name)
           for part in ("scheduler", "worker", "client")
           for kind, name in (("cert", NODE), ("key", NODE_KEY))}  # fmt: skip
    own["tls_ca_file"] = str(keys / AUTHORITY)
    return f"tls://{rest}", Security(require_encryption=True, **own)  # type: ignore[no-untyped-call]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _NoShuffle(WorkerPlugin):
    """Replaces the shuffle plugin that Dask's scheduler sends to workers: it reads data of peers
    without these checks."""

    name = "shuffle"


_REPLACED = {("distributed.shuffle._worker_plugin", "ShuffleWorkerPlugin"): _NoShuffle}


class _Unpickler(pickle.Unpickler):
    allowed: ClassVar[set[tuple[str, str]]] = set()

    def find_class(self, module: str, name: str) -> Any:
        if (stand_in := _REPLACED.get((module, name))) is not None:
            return stand_in
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(
                f"{module}.{name} is not allowed in messages of peers; this process only "
                "runs cells of its own checkout"
            )
        return super().find_class(module, name)


def _loads(data: Any, *, buffers: Any = ()) -> Any:
    return _Unpickler(io.BytesIO(data), buffers=buffers).load()


def restrict_pickles(*, scheduler: bool = False, session: bool = False) -> None:
    """Make Dask in this process refuse pickles that name anything except a unit of work.

    Args:
        scheduler: whether this process is a scheduler, which reads wrappers of work.
        session: whether this process is a session, which reads answers.
    """
    _Unpickler.allowed |= _ALLOWED
    if scheduler:
        _Unpickler.allowed |= _ALLOWED_IN_SCHEDULER
    if session:
        _Unpickler.allowed |= _ALLOWED_IN_SESSION
    # Dask's modules have several functions that all call pickle.loads through this name.
    restricted = SimpleNamespace(**{name: getattr(pickle, name) for name in dir(pickle)})
    restricted.loads = _loads
    modules: list[Any] = [protocol_pickle, distributed.scheduler, distributed.client]
    for module in modules:
        AttributeReplacer("cluster")(module, "pickle", restricted)
