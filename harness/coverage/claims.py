"""The operators that vendors' code claims to take, in files beside a run. Imports no torch.

The process that runs the first cell of a target writes ``claims/BACKEND-RECIPE.json`` into the run
folder (:mod:`harness.coverage.vendor_claims`): it has loaded the vendor's code.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.errors import ConformError
from harness.record.folder import write_atomically
from harness.record.program_data import OperatorClaim
from harness.record.target import Target

CLAIMS_FOLDER = "claims"
_VERSION = 1


class TargetClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The operators that a recipe takes by the vendor's own code.

    Attributes:
        version: of this format.
        target: the recipe, ``xnnpack:fp32``.
        packages: versions of the packages that the code belongs to.
        kernels: whether the recipe has no delegate, so that the runtime's own kernels execute its
            programs and claim their operators.
        operators: the claims by name in records; None if the backend states none.
        problem: why it states none; empty if it has no claims to state.
        core: core ATen operators by name, each with the names that edge programs call it by.
    """

    version: int = _VERSION
    target: str
    packages: dict[str, str] = {}
    kernels: bool = False
    operators: dict[str, OperatorClaim] | None = None
    problem: str = ""
    core: dict[str, list[str]] = {}


def find_claims_file(folder: Path, target: Target) -> Path:
    """Return the file with the claims of a target's recipe."""
    return folder / CLAIMS_FOLDER / f"{target.backend}-{target.recipe}.json"


def write_claims(folder: Path, claims: TargetClaims) -> None:
    """Write the claims of a recipe beside a run."""
    path = find_claims_file(folder, Target.parse(claims.target))
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, msgspec.json.encode(claims))


def read_claims(folder: Path) -> dict[str, TargetClaims]:
    """Read the claims of a run by target; empty if it has none.

    Raises:
        ConformError: a file is damaged or of another version.
    """
    found = {}
    for path in sorted((folder / CLAIMS_FOLDER).glob("*.json")):
        try:
            claims = msgspec.json.decode(path.read_bytes(), type=TargetClaims)
        except msgspec.MsgspecError as error:
            raise ConformError(f"{path}: {error}") from error
        if claims.version != _VERSION:
            raise ConformError(
                f"{path} has version {claims.version}; this program reads {_VERSION}"
            )
        found[claims.target] = claims
    return found
