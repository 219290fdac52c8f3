"""What would help: changes of the current setup, ranked by how little of the training they change.
All that advises shows what `find_changes` returns. Compute decides what is faster, not the number
of batches: a batch of twice the tokens takes about twice the time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from batchstat.documents.comparison import LearningRateHint
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.planning.strategies.spec import RowRequest
from batchstat.planning.strategies.static import Fixed, Static
from batchstat.recording.given_batches import GivenBatches
from batchstat.simulation.meters.counts import PlanCounts
from batchstat.simulation.meters.token_weights import EXACT
from batchstat.simulation.results import StrategyResult

LINEAR_SOURCE = "for SGD: Goyal et al. 2017"
SQUARE_ROOT_SOURCE = "Krizhevsky 2014; for Adam: Malladi et al. 2022"
LEAST_SAVED = 0.05  # share of the current compute that a change saves at least
MOST_LOST = 0.005
"""Share of the corpus that a change may lose, or repeat, beyond what the current setup does."""
ENOUGH_SAVED = 0.8  # share of what the fastest change saves that one which changes less must save
CLEARLY_FASTER = 1.1  # compute / that of the fastest change, above which that one is named too
_ABOUT_AS_MANY = 0.01
"""Share of the steps by which those of a change may differ and still count as the same number."""


class Keeps(IntEnum):
    """What of the training a change keeps, from the most to the least."""

    EVERY_STEP = 1  # the samples of every step, and its gradient
    SIZE_BY_ARGUMENT = 2
    """The batch size and the number of steps; it is an argument of the user's trainer."""
    SIZE = 3  # the batch size and the number of steps; it needs a sampler or lines of code
    NOTHING = 4  # none of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
    """A setup that could replace the current one."""

    row: StrategyResult  # an epoch with it
    current: StrategyResult  # an epoch of the current setup
    keys: Mapping[str, Any] | None = None  # what it sets in the user's trainer; None if nothing
    line: str = ""  # these keys, as a line to paste; empty without keys
    needs_loader: bool = False  # whether no line makes it, but the loader of a script would

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
        steps, steps_now = self.row.counts.begun_steps, self.current.counts.begun_steps
        size = self.row.size  # such as ("batch_size", 8); None in place of 8 without a value
        # A packed row holds many samples: the same number of rows is another batch size.
        is_same_kind = self.row.packs_rows == self.current.packs_rows
        is_same_size = size[1] is not None and size == self.current.size and is_same_kind
        # The same batch size alone is not enough: what is dropped at the end may differ.
        may_keep = self.is_regrouped or is_same_size
        if may_keep and abs(steps - steps_now) <= _ABOUT_AS_MANY * steps_now:
            return Keeps.SIZE if self.keys is None else Keeps.SIZE_BY_ARGUMENT
        return Keeps.NOTHING

    @property
    def is_regrouped(self) -> bool:
        """Whether the row has the samples of each of today's steps, in other batches."""
        changed, now = self.row.request, self.current.request
        planned = _as_planned(now)
        return (
            isinstance(changed.strategy, Regrouped)
            and changed.strategy.setup in (now.strategy, planned.strategy)
            and _of_ranks(changed) in (_of_ranks(now), _of_ranks(planned))
        )

    @property
    def has_place(self) -> bool:
        """Whether the user's trainer can be given it: by its keys, or as batches of a sampler."""
        now = _as_planned(self.current.request).strategy
        return self.keys is not None or not self.is_regrouped or now.takes_sampler

    @property
    def repair(self) -> str:
        """What takes out padding from before batching; empty for none, or if `line` says it."""
        strategy = self.current.request.strategy
        return strategy.repair if isinstance(strategy, GivenBatches) and not self.line else ""

    @property
    def apply(self) -> str:
        """The line that regroups, if the gradient stays the same; empty for other changes."""
        strategy = self.current.request.strategy
        return strategy.apply if isinstance(strategy, GivenBatches) and self.is_regrouped else ""

    def applied(self) -> "Change":
        """Return the change with that line, where the gradient is known to stay the same."""
        if not self.apply or not self.keeps_gradient or self.keys is not None:
            return self
        return replace(self, line=self.apply, needs_loader=False)

    @property
    def keeps_gradient(self) -> bool:
        """Whether the loss is summed over the step, whatever samples share a batch."""
        request = self.current.request
        return (request.settings.loss or request.strategy.loss) in EXACT

    @property
    def _keeps_every_step(self) -> bool:
        """Whether each step has the same samples and gradient as today: regrouped, where the loss
        does not ask which share a batch; or in the same order and size, with other row widths.
        """
        if self.is_regrouped:
            return self.keeps_gradient
        changed, now = _as_planned(self.row.request), _as_planned(self.current.request)
        # Of all strategies, only the batches of these two do not depend on lengths.
        if not all(isinstance(each.strategy, Static | Fixed) for each in (changed, now)):
            return False

        def decides_samples(request: RowRequest) -> tuple[object, ...]:
            strategy = request.strategy
            return strategy.batch_capacity, strategy.drop_last, *_of_ranks(request)

        return decides_samples(changed) == decides_samples(now)


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """What would help."""

    current: StrategyResult  # an epoch of the current setup
    current_fits: bool  # whether its batches fit the budget and the device
    star: Change | None  # the change that is recommended; None if there is nothing to change
    fastest: Change | None  # that of the least compute, where over 10 % faster than the star
    packed: Change | None  # one that packs rows, where none is now and it takes less compute
    ruled_out: StrategyResult | None  # of the least compute; does not fit, or loses or repeats more
    ranked: tuple[Change, ...]  # all that help and may be recommended, what keeps most first
    in_loader: Change | None = None  # the best that no line makes, if over 10 % faster than those
    others: tuple[Change, ...] = ()  # allowed ones that take about as much compute: no help

    @property
    def advised(self) -> Change | None:
        """The change that is named first; None if there is nothing to change."""
        return self.in_loader if self.star is None else self.star

    @property
    def best(self) -> StrategyResult | None:
        """The row to train with: the star's, else the current one; None if that does not fit."""
        if self.star is not None:
            return self.star.row
        return self.current if self.current_fits else None


def _of_ranks(request: RowRequest) -> tuple[object, ...]:
    return request.settings.order, request.settings.distribute, request.settings.remainder


def _as_planned(request: RowRequest) -> RowRequest:
    strategy = request.strategy
    origin = strategy.origin if isinstance(strategy, GivenBatches) else None
    return request if origin is None else origin


def find_changes(candidates: Iterable[Change], current: StrategyResult, budget: int) -> Changes:
    """Decide which of the candidates help, and which of those to name."""
    changes = [change for change in candidates if change.row is not current]
    # Packing needs attention that keeps samples apart, which a user who pads may lack.
    rivals = [change for change in changes if current.packs_rows or not change.row.packs_rows]
    packing_changes = [change for change in changes if change not in rivals]
    current_fits = _fits(current, budget)

    def rank(changes: Sequence[Change]) -> list[Change]:
        allowed = [change for change in changes if _is_allowed(change, budget)]
        # A setup that does not fit is no measure of what a change must save.
        helpful = [change for change in allowed if not current_fits or change.saves_enough]
        return sorted(helpful, key=lambda change: (change.keeps, change.compute))

    ranked = rank(rivals)
    written = [change for change in ranked if not change.needs_loader]
    star, packed = _choose_star(written), _choose_star(rank(packing_changes))
    in_loader = _choose_star([change for change in ranked if change.needs_loader])
    fastest = min(written, key=lambda change: change.compute, default=None)
    if fastest and in_loader and fastest.compute <= CLEARLY_FASTER * in_loader.compute:
        in_loader = None  # a line makes about as much of it
    best = star.row if star is not None else current
    # A packed row that takes no less is no reason to change attention.
    if packed is not None and packed.compute >= best.counts.compute:
        packed = None
    cheapest = min([current, *(c.row for c in rivals)], key=lambda row: row.counts.compute)
    is_ruled_out = (
        cheapest.counts.compute < best.counts.compute
        and all(cheapest is not change.row for change in ranked)
        # Where it saves little, it would not have helped anyhow.
        and Change(row=cheapest, current=current).saves_enough
    )
    # The star keeps more of the training than the fastest, which is named only if clearly faster.
    if star is None or fastest is None or star.compute <= CLEARLY_FASTER * fastest.compute:
        fastest = None
    return Changes(
        current=current,
        current_fits=current_fits,
        star=star,
        fastest=fastest,
        packed=packed,
        ruled_out=cheapest if is_ruled_out else None,
        ranked=tuple(ranked),
        in_loader=in_loader,
        others=tuple(
            change
            for change in rivals
            if change not in ranked
            and _is_allowed(change, budget)
            and change.saved >= -LEAST_SAVED * current.counts.compute
        ),
    )


def _choose_star(ranked: Sequence[Change]) -> Change | None:
    """Return the first that saves at least 80 % of what the fastest saves, if there is one."""
    if not ranked:
        return None
    most_saved = max(change.saved for change in ranked)
    # Where the current setup does not fit, all may take more: then the least of them.
    least_saved = min(ENOUGH_SAVED * most_saved, most_saved)
    return next(change for change in ranked if change.saved >= least_saved)


def keeps_batches(current: StrategyResult) -> bool:
    """Return whether the samples of each batch of the current setup have to stay together."""
    strategy = current.request.strategy
    return isinstance(strategy, GivenBatches) and strategy.keeps_batches


def _fits(row: StrategyResult, budget: int) -> bool:
    return row.counts.reducible_peak <= budget and row.on_device.fits_memory is not False


def _is_allowed(change: Change, budget: int) -> bool:
    """Return whether a change fits, has a place, and loses and repeats at most `MOST_LOST` more."""
    if keeps_batches(change.current) and (change.is_regrouped or change.keeps > Keeps.EVERY_STEP):
        return False
    changed, now = change.row.counts, change.current.counts
    loses_more = changed.lost_share > now.lost_share + MOST_LOST
    repeats_more = changed.repeated_share > now.repeated_share + MOST_LOST
    fits = _fits(change.row, budget) and not loses_more and not repeats_more
    return fits and change.has_place


def learning_rate_hint(current: PlanCounts, new: PlanCounts) -> LearningRateHint:
    """Return the hint for changing from one strategy to another: each step is taken as if it had
    the mean number of samples.

    Example:
        >>> hint = LearningRateHint(batch_ratio=4.0)
        >>> hint.linear, hint.square_root
        (4.0, 2.0)
    """
    # Products of whole numbers are divided once, so that equal strategies give exactly 1.
    ratio = (new.samples * current.begun_steps) / (current.samples * new.begun_steps)
    return LearningRateHint(ratio)
