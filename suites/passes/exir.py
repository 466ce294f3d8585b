"""Exir's passes: equal expressions computed once, operators that do nothing, views and clones."""

from __future__ import annotations

from harness import PassCase
from suites.passes.graphs import CAST, MOVED, NIGHTLY, REPEATED, WRITABLE
from suites.selection import take_one_of

BOTH = "portable:fp32|xnnpack:fp32"

CASES = [
    *PassCase("cse", "+cse", REPEATED).cases,
    *PassCase("cse", "+cse", [one for one in MOVED if one.name != "dynamic"], tags=NIGHTLY).cases,
    *PassCase("remove_noop", "+remove_noop", CAST, BOTH).cases,
    *PassCase("remove_noop", "+remove_noop", MOVED, BOTH, NIGHTLY).cases,
    *PassCase("fuse_view_copy", "+fuse_view_copy", MOVED, BOTH, NIGHTLY).cases,
    *PassCase("remove_clone", "+remove_clone", MOVED, BOTH, NIGHTLY).cases,
    *PassCase("exir_reinplace", "+reinplace", WRITABLE).cases,
    *PassCase("in_order", "+cse+remove_noop+fuse_view_copy", [*MOVED, *WRITABLE[:4]]).cases,
]
CASES = take_one_of(2, CASES)
