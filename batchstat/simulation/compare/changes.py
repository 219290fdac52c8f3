"""What would help: changes of the current setup, ranked by how little of the training they change.

This is the only place that decides it: `compare`, `preflight`, `check`, `init`, `recipe` and the
page show what `find_changes` returns.

Compute decides what is faster, not the number of batches: a batch of twice the tokens takes about
twice the time. On the training benchmark (`tests/benchmarks/training.py`) the estimates of all rows
but `fixed` are within some 10 % of measured times.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from batchstat.documents.comparison import LearningRateHint
from batchstat.planning.strategies.fixed import Fixed
from batchstat.planning.strategies.spec import RowRequest
from batchstat.planning.strategies.static import Static
from batchstat.recording.given_batches import GivenBatches
from batchstat.simulation.compare.learning_rate import learning_rate_hint
from batchstat.simulation.results import StrategyResult

LEAST_SAVED = 0.05
"""Share of the current compute that a change saves at least."""
MOST_LOST = 0.005
"""Share of the corpus that a change may lose, or repeat, beyond what the current setup does."""
ENOUGH_SAVED = 0.8
"""Share of what the fastest change saves that one which changes less must save."""
CLEARLY_FASTER = 1.1
"""Compute / that of the fastest change, above which that one is named too."""
_ABOUT_AS_MANY = 0.01
"""Share of the steps by which those of a change may differ and still count as the same number."""


class Keeps(IntEnum):
    """What of the training a change keeps, from the most to the least."""

    EVERY_STEP = 1
    """The samples of every step, and its gradient."""
    SIZE_BY_ARGUMENT = 2
    """The batch size and the number of steps; it is an argument of the user's trainer."""
    SIZE = 3
    """The batch size and the number of steps; it needs a sampler or lines of code."""
    NOTHING = 4
    """None of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
    """A setup that could replace the current one.

    Attributes:
        row: an epoch with it.
        current: an epoch of the current setup.
        keys: what it sets in the user's own trainer; None where that has no argument for it.
        line: these keys, as a line to paste; empty without keys.
    """

    row: StrategyResult
    current: StrategyResult
    keys: Mapping[str, Any] | None = None
    line: str = ""

    @property
    def speed_up(self) -> float:
        """Compute of the current setup / with the change; time, on a calibrated device."""
        return self.current.counts.compute / self.row.counts.compute

    @property
    def saved(self) -> int:
        """Compute that it saves; negative where it takes more."""
        return self.current.counts.compute - self.row.counts.compute

    @property
    def compute(self) -> int:
        """Compute with it."""
        return self.row.counts.compute

    @property
    def saves_enough(self) -> bool:
        """Whether it helps."""
        return self.saved >= LEAST_SAVED * self.current.counts.compute

    @property
    def learning_rate(self) -> LearningRateHint:
        """How the learning rate may scale."""
        return learning_rate_hint(self.current.counts, self.row.counts)

    @property
    def keeps(self) -> Keeps:
        """What of the training it keeps."""
        if self._keeps_every_step:
            return Keeps.EVERY_STEP
        steps, before = self.row.counts.steps, self.current.counts.steps
        if self._keeps_size and abs(steps - before) <= _ABOUT_AS_MANY * before:
            return Keeps.SIZE if self.keys is None else Keeps.SIZE_BY_ARGUMENT
        return Keeps.NOTHING

    @property
    def _keeps_size(self) -> bool:
        key, size = self.row.size
        same = size is not None and (key, size) == self.current.size
        return same and self.row.packs_rows == self.current.packs_rows

    @property
    def _keeps_every_step(self) -> bool:
        """Whether both cut the same order every `batch_size` samples, and differ only in the width
        of rows.
        """
        both = [_as_planned(each.request) for each in (self.row, self.current)]
        if not all(isinstance(each.strategy, Static | Fixed) for each in both):
            return False
        made, before = (
            (
                *(each.strategy.batch_capacity, each.strategy.drop_last),
                *(each.settings.order, each.settings.distribute, each.settings.remainder),
            )
            for each in both
        )
        return made == before


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """What would help.

    Attributes:
        current: an epoch of the current setup.
        current_fits: whether its batches fit the budget and the device.
        star: the change of the training that is recommended; None if there is nothing to change.
        fastest: the change with the least compute, where it is over 10 % faster than the star.
        packed: a change that puts several samples into a row, which the attention of the current
            setup may not keep apart; None if none takes less compute.
        ruled_out: the row with the least compute, where it may not be recommended since its batches
            do not fit, or since it loses or repeats more of the corpus.
        ranked: every change that helps and may be recommended, the one that keeps most first.
        others: those that may be made and take about as much compute, so that they do not help.
    """

    current: StrategyResult
    current_fits: bool
    star: Change | None
    fastest: Change | None
    packed: Change | None
    ruled_out: StrategyResult | None
    ranked: tuple[Change, ...]
    others: tuple[Change, ...] = ()

    @property
    def best(self) -> StrategyResult | None:
        """The row to train with: the star's, else the current setup's; None if that does not fit
        either.
        """
        if self.star is not None:
            return self.star.row
        return self.current if self.current_fits else None


def _as_planned(request: RowRequest) -> RowRequest:
    """Return the strategy that makes the same batches, where these were given."""
    strategy = request.strategy
    origin = strategy.origin if isinstance(strategy, GivenBatches) else None
    return request if origin is None else origin


def find_changes(candidates: Iterable[Change], current: StrategyResult, budget: int) -> Changes:
    """Return what would help.

    Args:
        candidates: rows that could replace the current setup, the current one included or not.
        current: the current setup.
        budget: the most total tokens of a batch. A single sample that exceeds it does not count
            against a row, since every row has it.
    """
    others = [each for each in candidates if each.row is not current]
    # Packing needs attention that keeps samples apart, which a user who pads may not have.
    rivals = [each for each in others if current.packs_rows or not each.row.packs_rows]
    current_fits = _fits(current, budget)

    def chosen(among: Sequence[Change]) -> list[Change]:
        """Return those that may be recommended and help, those that keep most first."""
        allowed = [each for each in among if _is_allowed(each, budget)]
        # A setup that does not fit is no measure of what a change must save.
        helping = [each for each in allowed if not current_fits or each.saves_enough]
        return sorted(helping, key=lambda each: (each.keeps, each.compute))

    ranked, packing = chosen(rivals), chosen([each for each in others if each not in rivals])
    star, fastest = _star(ranked), min(ranked, key=lambda each: each.compute, default=None)
    packed = _star(packing)
    best = star.row if star is not None else current
    if packed is not None and packed.compute >= best.counts.compute:
        packed = None
    least = min([current, *(each.row for each in rivals)], key=lambda row: row.counts.compute)
    is_ruled_out = (
        least.counts.compute < best.counts.compute
        and all(least is not each.row for each in ranked)
        # Where it saves little, it would not have helped anyhow.
        and Change(row=least, current=current).saves_enough
    )
    # What keeps more of the training is named first, where it is nearly as fast.
    if star is None or fastest is None or star.compute <= CLEARLY_FASTER * fastest.compute:
        fastest = None
    return Changes(
        current=current,
        current_fits=current_fits,
        star=star,
        fastest=fastest,
        packed=packed,
        ruled_out=least if is_ruled_out else None,
        ranked=tuple(ranked),
        others=tuple(
            each
            for each in rivals
            if each not in ranked
            and _is_allowed(each, budget)
            and each.saved >= -LEAST_SAVED * current.counts.compute
        ),
    )


def _star(ranked: Sequence[Change]) -> Change | None:
    """Return the first that saves nearly as much as the fastest of them."""
    if not ranked:
        return None
    most = max(each.saved for each in ranked)
    # `most` is negative where the current setup does not fit: then the one that costs least comes.
    return next(each for each in ranked if each.saved >= min(ENOUGH_SAVED * most, most))


def _fits(row: StrategyResult, budget: int) -> bool:
    return row.counts.reducible_peak <= budget and row.on_device.fits_memory is not False


def _is_allowed(change: Change, budget: int) -> bool:
    """Return whether its batches fit, and it loses and repeats little more than is lost and
    repeated today.
    """
    new, now = change.row.counts, change.current.counts
    loses = new.lost_share > now.lost_share + MOST_LOST
    repeats = new.repeated_share > now.repeated_share + MOST_LOST
    return _fits(change.row, budget) and not loses and not repeats
