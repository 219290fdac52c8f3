"""What strategies drop, truncate and repeat, in words that screens show at the top."""

from collections.abc import Iterator, Sequence

from batchstat.render.screens.layout import Line, folded
from batchstat.render.text import percent
from batchstat.simulation.compare.changes import MOST_LOST
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted

_LONGEST_NAME = 40  # characters of a line of the name of a strategy


def loses(new: PlanCounts, current: PlanCounts) -> list[str]:
    """Return a sentence if a setup loses noticeably more than the current one; or none."""
    if new.lost_share <= current.lost_share + MOST_LOST:
        return []
    lost = []
    if new.dropped_samples:
        lost.append(f"{new.dropped_samples:,} samples, {_share(new.dropped_ratio)}")
    if new.truncated_tokens:
        samples = f"{new.truncated_samples:,} samples"
        lost.append(f"{_share(new.truncated_ratio)} by truncating {samples}")
    return [f"it loses {' and '.join(lost)}"]


def repeats(new: PlanCounts, current: PlanCounts) -> list[str]:
    """Return a sentence if a setup repeats noticeably more than the current one; or none."""
    repeats_more = new.repeated_share > current.repeated_share + MOST_LOST
    return [f"it repeats {_repeated(new)}, {_share(new.duplicated_ratio)}"] if repeats_more else []


def loss_lines(rows: Sequence[StrategyResult]) -> Iterator[Line]:
    """Yield what rows lose and repeat: what is true of all of them, then of one alone."""
    facts_of = {folded(row.label, _LONGEST_NAME): list(losses(row)) for row in rows}
    shared = [fact for fact in losses(rows[0]) if all(fact in facts for facts in facts_of.values())]
    texts = [" · ".join(shared)] if shared else []
    for name, facts in facts_of.items():
        if own_facts := [fact for fact in facts if fact not in shared]:
            texts.append(f"{name}: {' · '.join(own_facts)}")
    # Only the first line has the word.
    yield from (Line("" if i else "losses", text) for i, text in enumerate(texts))


def losses(row: StrategyResult) -> Iterator[str]:
    """Yield what a row drops, truncates and repeats, as samples and as share of the tokens."""
    counts = row.counts
    # Strategies that split samples may drop a part of one, and no whole sample.
    if counts.dropped_samples or counts.dropped_tokens:
        yield _dropped(row)
    if counts.truncated_samples:
        truncated = counted(counts.truncated_samples, "sample")
        yield f"{truncated} truncated, {_share(counts.truncated_ratio)}"
    if counts.duplicated_samples:
        yield f"{_repeated(counts)} repeated, {_share(counts.duplicated_ratio)}"


def _dropped(row: StrategyResult) -> str:
    """Return what is dropped, and whether the next epoch drops the same samples."""
    counts, dropped_again = row.counts, row.dropped_again
    dropped = f"{counts.dropped_samples:,} of {counted(counts.drawn_samples, 'sample')} dropped"
    # A strategy may drop the end of each group of samples, such as of each "bucket".
    group = row.request.strategy.drops_per
    text = dropped + (f" per {group}" if group else "") + f", {_share(counts.dropped_ratio)}"
    # None where no whole sample is dropped, or it is not known what the next epoch drops.
    if dropped_again is None:
        return text
    if dropped_again == counts.dropped_samples:
        return f"{text}, the same in every epoch"
    same_samples = f"{dropped_again:,} of them" if dropped_again else "none of them"
    return f"{text}, {same_samples} in the next epoch too"


def _repeated(counts: PlanCounts) -> str:
    return f"{counts.duplicated_samples:,} of {counted(counts.samples, 'sample')}"


def _share(ratio: float) -> str:
    return f"{percent(ratio, 2)} of the tokens"
