"""Rows of the mutation tables."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from harness.coverage.mutation.mutant import Campaign, FileMutants, MutantOutcome, MutantResult

MEANINGS = {
    MutantOutcome.RED: "a cell is red",
    MutantOutcome.GATE: "no cell is red; the gate refuses a difference, such as a lost delegate",
    MutantOutcome.CHANGED: "programs change, and nothing is red: harmless, or not noticed",
    MutantOutcome.UNCHANGED: "no program changes: the mutant is equivalent, or a case is absent",
    MutantOutcome.INVALID: "the mutated function cannot replace the function, or no cell passes "
    "without the mutant; not counted",
}
SURVIVED = (MutantOutcome.CHANGED, MutantOutcome.UNCHANGED)


@dataclass
class MutationScore:
    """How many mutants are noticed.

    Attributes:
        name: name of the code.
        counts: number of judged mutants by outcome, without explained ones.
        explained: number of survivors that are explained.
        executed, once, unexecuted: numbers of all mutants by the cells that execute them.
    """

    name: str
    counts: Counter[MutantOutcome] = field(default_factory=Counter)
    explained: int = 0
    executed: int = 0
    once: int = 0
    unexecuted: int = 0

    @property
    def judged(self) -> int:
        """Number of valid mutants that are not explained."""
        return self.counts.total() - self.counts[MutantOutcome.INVALID]

    @property
    def survivors(self) -> int:
        """Number of mutants that nothing notices."""
        return sum(self.counts[each] for each in SURVIVED)

    @property
    def red(self) -> float:
        """Share of mutants that make a cell red."""
        return self.counts[MutantOutcome.RED] / max(1, self.judged)

    @property
    def noticed(self) -> float:
        """Share of mutants that make a cell red, or that the gate refuses."""
        return 1 - self.survivors / max(1, self.judged)

    @property
    def executed_share(self) -> float:
        """Share of mutants that a cell executes. Mutants of code that runs once do not count."""
        return self.executed / max(1, self.executed + self.unexecuted)

    @property
    def margin(self) -> float:
        """Half of the 95 % confidence interval of a share of the judged mutants, by the normal
        approximation at a share of one half."""
        return 0.98 / math.sqrt(max(1, self.judged))


def compute_score(campaign: Campaign) -> MutationScore:
    """Add up the sample of a campaign."""
    found = MutationScore(campaign.info.target)
    for each in campaign.results.values():
        if each.sampled:
            _count(found, each, campaign)
    for file in campaign.info.files.values():
        _add_totals(found, file)
    return found


def list_file_scores(campaign: Campaign) -> list[MutationScore]:
    """Return the scores of files with a judged mutant, most survivors first."""
    found: dict[str, MutationScore] = {}
    for each in campaign.results.values():
        name = each.mutant.file
        if name not in found:
            found[name] = MutationScore(name)
            _add_totals(found[name], campaign.info.files.get(name, FileMutants()))
        _count(found[name], each, campaign)
    return sorted(found.values(), key=lambda row: (-row.survivors, row.name))


def list_operator_scores(campaign: Campaign) -> list[MutationScore]:
    """Return the scores of the kinds of change, by name."""
    found: dict[str, MutationScore] = {}
    for each in campaign.results.values():
        if each.sampled:
            operator = each.mutant.operator
            _count(found.setdefault(operator, MutationScore(operator)), each, campaign)
    return [found[name] for name in sorted(found)]


def _count(score: MutationScore, result: MutantResult, campaign: Campaign) -> None:
    if is_explained(result, campaign):
        score.explained += 1
    else:
        score.counts[result.outcome] += 1


def _add_totals(score: MutationScore, file: FileMutants) -> None:
    score.executed += file.executed
    score.once += file.once
    score.unexecuted += file.unexecuted


def is_explained(result: MutantResult, campaign: Campaign) -> bool:
    """Whether a mutant survives for a known good reason."""
    return result.outcome in SURVIVED and campaign.info.find_review(result.mutant) is not None


def is_survivor(result: MutantResult, campaign: Campaign) -> bool:
    """Whether nothing notices or explains a mutant."""
    return result.outcome in SURVIVED and not is_explained(result, campaign)


def list_survivors(campaign: Campaign) -> list[MutantResult]:
    """Return the mutants that nothing notices or explains, by file and line."""
    return sorted(
        (each for each in campaign.results.values() if is_survivor(each, campaign)),
        key=lambda each: (each.mutant.file, each.mutant.start),
    )


def group_survivors(campaign: Campaign) -> dict[str, list[MutantResult]]:
    """Return the survivors by file, files with most survivors first."""
    found: dict[str, list[MutantResult]] = {}
    for each in list_survivors(campaign):
        found.setdefault(each.mutant.file, []).append(each)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def describe_change(result: MutantResult) -> str:
    """Describe a mutant in one line."""
    mutant = result.mutant
    before, after = (" ".join(each.split()) for each in (mutant.before, mutant.after))
    if not after:
        return f"without {before.lstrip(', ')}"
    return f"{before} → {after}"


def describe_cells(result: MutantResult) -> str:
    """Say how many of the cells that execute a mutant ran."""
    if result.tried < result.executing:
        return f"{result.tried:,} of {result.executing:,} cells"
    return f"all {result.executing:,} cells" if result.executing > 1 else "its one cell"


@dataclass(frozen=True)
class ScoreChange:
    """A mutant whose outcome differs between two campaigns."""

    before: MutantResult
    after: MutantResult

    @property
    def is_worse(self) -> bool:
        """Whether it was noticed, and is not any more."""
        return self.before.outcome not in SURVIVED and self.after.outcome in SURVIVED


def compare_campaigns(before: Campaign, after: Campaign) -> list[ScoreChange]:
    """Return the mutants whose outcome differs between the campaigns, the worse ones first."""
    found = [
        ScoreChange(before.results[name], result)
        for name, result in after.results.items()
        if name in before.results
        and before.results[name].outcome is not result.outcome
        and MutantOutcome.INVALID not in (before.results[name].outcome, result.outcome)
    ]
    return sorted(found, key=lambda each: (not each.is_worse, each.after.mutant.file))
