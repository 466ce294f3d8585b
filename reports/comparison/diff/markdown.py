"""A diff as GitHub-flavoured Markdown of limited length."""

from __future__ import annotations

from reports import text
from reports.comparison.diff.compare import Change, Diff
from reports.comparison.diff.kinds import ChangeKind
from reports.comparison.diff.words import describe_kinds, headline
from reports.render.markdown import Bounded, code, more, prose, table

_GROUPS = 20


def render(found: Diff, *, limit: int = 20) -> str:
    """The whole diff. Sections that do not fit are left out and named.

    Args:
        found: the diff.
        limit: largest number of changes to show of each kind.
    """
    page = Bounded()
    page.add(f"# {code(found.before.name)} → {code(found.after.name)}")
    page.add(f"{prose(headline(found))}.")
    page.add(environment(found))
    page.add("\n".join(f"- {prose(remark)}" for remark in found.remarks[:_GROUPS]))
    for kind in ChangeKind:
        if changes := found.select_kind(kind):
            title = f"{kind.label}: {text.count(len(changes), 'cell')}"
            body = [changes_table(changes[:limit]), *more(len(changes) - limit)]
            page.add("\n\n".join([f"## {title}", f"{kind.meaning}.", *body]), name=title)
    for title, groups in (
        ("By target", found.by_target()),
        ("By operator", found.by_op()),
        ("By error", found.by_signature()),
    ):
        if groups:
            page.add(f"## {title}\n\n{_groups(groups)}", name=title)
    return page.text


def environment(found: Diff) -> str:
    """A table of the differences of environment; empty if there are none."""
    if not found.environment:
        return ""
    body = [[prose(item.name), code(item.before), code(item.after)] for item in found.environment]
    return table(["Environment", "Before", "After"], body)


def changes_table(changes: list[Change]) -> str:
    """A table of changes: the cell, the change, and the command that reproduces it."""
    body = [
        [
            code(change.id, 200),
            f"{prose(change.description, 400)}<br>{code(change.cell.repro, 300)}",
        ]
        for change in changes
    ]
    return table(["Cell", "Change, repro"], body)


def _groups(groups: dict[str, list[Change]]) -> str:
    body = [
        [f"{len(changes):,}", code(name, 200), prose(describe_kinds(changes))]
        for name, changes in list(groups.items())[:_GROUPS]
    ]
    return "\n\n".join([table(["Changes", "", "Kinds"], body, ["Changes"]),
                        *more(len(groups) - _GROUPS)])  # fmt: skip
