"""Mutation scores as the page docs/trust.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.coverage.mutation.mutant import Campaign, MutantOutcome
from reports import text
from reports.mutation import views

_HEAD = """\
# Mistakes that the cells notice

Use this page to judge how far a green run can be trusted: the share of small mistakes in each
backend's lowering code that makes a cell red. `conform mutate score --write docs/trust.md` writes
it; [mutation.md](mutation.md) explains how mistakes are made and judged.

- **cells**: recorded cells whose code is mutated.
- **executed**: mutants in statements that a green cell of at most ten seconds executes, as a
  share of all.
- **red**: executed mutants of a random sample that make a cell red by themselves.
- **noticed**: that, or the gate refuses a difference from the run before, such as a lost delegate.
- **explained**: mutants that cannot be noticed, or do no harm (`suites/reviewed_mutants.toml`);
  they do not count.
"""
_COLUMNS = "code cells mutants executed judged red noticed changed unchanged explained".split()


def render(campaigns: Sequence[Campaign]) -> str:
    """Render the page: scores by target, then by file with a survivor."""
    packages = {name: version for each in campaigns for name, version in each.info.packages.items()}
    versions = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
    lines = [_HEAD, f"Measured on {versions}.\n" if versions else ""]
    lines += [_format_row(_COLUMNS), _format_row(["---", *["---:"] * (len(_COLUMNS) - 1)])]
    for campaign in campaigns:
        row = views.compute_score(campaign)
        shares = [f"{row.executed_share:.0%}"]
        shares += [f"{share:.0%}" if row.judged else "" for share in (row.red, row.noticed)]
        total = f"{row.executed + row.unexecuted:,}"
        survived = [row.counts[MutantOutcome.CHANGED], row.counts[MutantOutcome.UNCHANGED]]
        lines.append(
            _format_row(
                [
                    row.name,
                    f"{campaign.info.cells:,}",
                    total,
                    shares[0],
                    row.judged,
                    *shares[1:],
                    *survived,
                    row.explained,
                ]
            )
        )
    margin = max((views.compute_score(each).margin for each in campaigns), default=0.0)
    lines.append(f"\nShares of a sample are exact to ± {margin:.0%} at 95 % confidence.")
    for campaign in campaigns:
        lines.append(f"\n## {campaign.info.target}\n")
        rows = [row for row in views.list_file_scores(campaign) if row.survivors]
        judged = len({each.mutant.file for each in campaign.results.values()})
        if not rows:
            lines.append(f"Each mutant in {text.count(judged, 'file')} is noticed or explained.")
            continue
        lines += [f"{text.count(len(rows), 'file')} of {judged} with a mutant that survives:\n",
                  "| file | judged | noticed | survive |", "|---|---:|---:|---:|"]  # fmt: skip
        lines += [
            f"| `{row.name}` | {row.judged} | {row.noticed:.0%} | {row.survivors} |" for row in rows
        ]
    return "\n".join(lines) + "\n"


def _format_row(values: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, values))} |"
