"""A recipe with its passes spelled: ``xnnpack:fp32+lift`` adds one, ``mlx:fp32-cse`` leaves one
out, ``mlx:fp32-passes`` leaves out all that run before partitioning.

Added passes run before the recipe's own, in the order of the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from harness.errors import ReleaseError, UnknownTarget
from harness.model.backend import Backend, OffersPasses
from harness.model.recipe import KnownPass, Recipe, Script
from harness.record.target import ALL_PASSES, Target

_EXIR, _TRANSFORMS = "executorch.exir.passes", "executorch.backends.transforms"

GENERAL: Mapping[str, KnownPass] = {
    "cse": KnownPass(f"{_EXIR}.cse_pass:CSEPass", "computes equal expressions once"),
    "remove_noop": KnownPass(
        f"{_EXIR}.remove_noop_pass:RemoveNoopPass",
        "drops operators that do nothing",
        aliases=True,
    ),
    "fuse_view_copy": KnownPass(
        f"{_TRANSFORMS}.fuse_view_copy:FuseViewCopyTransform", "makes one of several views in a row"
    ),
    "remove_clone": KnownPass(
        f"{_TRANSFORMS}.remove_clone_ops:RemoveCloneOpsTransform", "drops clones", aliases=True
    ),
    "reinplace": KnownPass(
        f"{_EXIR}.reinplace:reinplace_pass", "writes into values that are dead", in_place=True
    ),
    "dim_order_ops_revert": KnownPass(
        f"{_EXIR}.memory_format_ops_pass:DimOrderOpsRevertPass", "spells dim orders as formats"
    ),
    "memory_format": KnownPass(
        f"{_EXIR}.memory_format_ops_pass:MemoryFormatOpsPass", "spells formats as dim orders"
    ),
    "enforce_contiguous": KnownPass(
        f"{_TRANSFORMS}.enforce_contiguous_dim_order:EnforceContiguousDimOrder",
        "computes in contiguous memory only",
    ),
    "fuse_cascaded_transpose": KnownPass(
        f"{_TRANSFORMS}.fuse_cascaded_transpose_or_permute_ops:FuseCascadedTransposeOrPermuteOps",
        "makes one of several permutations in a row",
    ),
    "remove_permutes": KnownPass(
        f"{_TRANSFORMS}.remove_permutes_around_elementwise_ops:RemovePermutesAroundElementwiseOps",
        "drops permutations that undo each other around elementwise operators",
    ),
    "postpone_permute": KnownPass(
        f"{_TRANSFORMS}.postpone_permute_below_squeeze_view:"
        "PostponePermuteOpBelowSqueezeOrUnsqueezeLikeView",
        "moves permutations below views of the same elements",
    ),
    "replace_nop_transpose": KnownPass(
        f"{_TRANSFORMS}.replace_nop_transpose_or_permute_with_view:"
        "ReplaceNopTransposeOrPermuteWithViewPass",
        "makes views of permutations that move nothing",
    ),
}
"""Passes of exir that a target can add to any recipe."""


def list_known_passes(backend: Backend) -> dict[str, KnownPass]:
    """Return the passes that a backend's targets can add, by name."""
    own = backend.passes if isinstance(backend, OffersPasses) else {}
    return {**GENERAL, **own}


def pass_name(made: Any) -> str:
    """Return the name of a recipe's own pass: its class in snake case, without "pass"."""
    name = getattr(made, "__name__", type(made).__name__)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return re.sub(r"_(pass|transform)$", "", words)


def apply_passes(recipe: Recipe, target: Target, backend: Backend) -> Recipe:
    """Return the recipe of a target with passes.

    Args:
        recipe: the recipe.
        target: the target without its settings; the passes that it adds exist.
        backend: the backend.

    Raises:
        UnknownTarget: the recipe has no pass to leave out by that name.
    """
    if not target.passes:
        return recipe
    known = list_known_passes(backend)
    added, dropped = _split_passes(target.passes)
    if dropped - {ALL_PASSES}:
        runs = [pass_name(made) for made in recipe.transform_passes()]
        for name in sorted(dropped - {ALL_PASSES}):
            require_known(name, runs, f"{target.base} runs no pass {name!r} before it partitions")

    def transform_passes() -> list[Any]:
        own = [] if ALL_PASSES in dropped else recipe.transform_passes()
        kept = [made for made in own if pass_name(made) not in dropped]
        return [*(known[name].make() for name in added), *kept]

    return replace(
        recipe,
        transform_passes=transform_passes,
        added=tuple(known[name] for name in added),
        script=_script(recipe, [known[name] for name in added], dropped),
    )


def add_pass(recipe: Recipe, known: KnownPass) -> Recipe:
    """Return a recipe that runs one more pass, before its own."""
    return replace(
        recipe,
        transform_passes=lambda: [known.make(), *recipe.transform_passes()],
        added=(known,),
        script=None,
    )


def find_pass(name: str, backend: Backend) -> KnownPass:
    """Find a pass by name: a registered name, ``exir.name``, or ``package.module:Class``.

    Raises:
        UnknownTarget: there is no such pass.
    """
    if ":" in name:
        known = KnownPass(name, "")
        try:
            known.make()
        except (ReleaseError, ImportError, AttributeError, TypeError) as error:
            raise UnknownTarget(f"{name} cannot be made: {error}") from error
        return known
    known_ones, name = list_known_passes(backend), name.removeprefix("exir.")
    require_known(name, known_ones, f"there is no pass {name!r} to add to {backend.name}")
    return known_ones[name]


def _split_passes(passes: Sequence[str]) -> tuple[list[str], set[str]]:
    added = [each[1:] for each in passes if each[0] == "+"]
    return added, {each[1:] for each in passes if each[0] == "-"}


def require_known(name: str, names: Iterable[str], problem: str) -> None:
    """Refuse a name that is not among those known.

    Raises:
        UnknownTarget: it is not; the message is the problem and the known names.
    """
    names = sorted(names)
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownTarget(f"{problem}{hint} Known: {', '.join(names) or 'none'}")


def _script(recipe: Recipe, added: Sequence[KnownPass], dropped: set[str]) -> Script | None:
    """Return the varied recipe as source; None if it needs more than upstream's packages."""
    script = recipe.script
    if script is None or not all(each.is_upstreams for each in added):
        return None
    places = [each.where.split(":") for each in added]
    kept = "" if ALL_PASSES in dropped else script.transform_passes
    if kept and dropped:
        classes = {type(made).__name__ for made in recipe.transform_passes()
                   if pass_name(made) in dropped}  # fmt: skip
        kept = f"[one for one in {kept} if type(one).__name__ not in {sorted(classes)}]"
    return replace(
        script,
        imports=(*script.imports, *(f"from {module} import {name}" for module, name in places)),
        transform_passes=f"[{', '.join(f'{name}()' for _, name in places)}] + {kept or '[]'}",
    )
