"""Rows near those of a comparison: the same strategies with other sizes and numbers of ranks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import log2

from batchstat.errors import InputError, OptionError
from batchstat.parameters import MAX_INT, MOST_RANKS
from batchstat.planning.rules import FROM_ONE_PLAN
from batchstat.planning.strategies.spec import NamedRow, StrategySpec
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.estimate import Drawn, check_share, draw
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import EpochCache

_SIZES = 5  # batch sizes or budgets of each strategy
_SECONDS = 3.0  # time for all rows on one core, by the rates that the strategies state
_MOST = 200  # rows at most, however fast they are simulated
_NEAREST = 2  # rows beside its own for which a part of the corpus is drawn: half and twice its size
_FOLLOWED_PER_SECOND = 1_000_000  # samples planned and measured, each followed to its ranks
_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # of a corpus: the largest for which there is time


@dataclass(frozen=True, kw_only=True)
class NearbyRow:
    """A row with another size or number of ranks."""

    of: StrategyResult  # the row of the comparison with the same strategy
    size: int | None  # its batch size or budget; None if the strategy has neither
    result: StrategyResult  # its numbers

    @property
    def world_size(self) -> int:
        """Its number of ranks."""
        return self.result.request.settings.world_size


@dataclass(frozen=True, kw_only=True)
class Nearby:
    """The rows near those of a comparison, these included."""

    rows: tuple[NearbyRow, ...] = ()  # by strategy, size and number of ranks
    current: Mapping[int, StrategyResult] = field(default_factory=dict)  # by number of ranks
    too_slow: int = 0  # number of rows for which there was no time
    without_batch: int = 0  # number of rows without a batch, or of ranks that are not possible
    samples: int = 0  # samples that the rows describe
    share: float | None = None  # the `subsample` that gives the same rows; None for all

    def speed_up(self, row: StrategyResult) -> float:
        """Return the estimated compute of the current setup on as many ranks / that of a row."""
        current = self.current[row.request.settings.world_size]
        return current.counts.compute / row.counts.compute


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a row would be."""

    near: StrategyResult  # the row of the comparison with the same strategy
    size: int | None  # the batch size or budget; None if the strategy has neither
    world_size: int  # the number of ranks
    doublings: float  # how often size and ranks are doubled or halved on the way there

    @property
    def row(self) -> NamedRow:
        """The strategy with the size of this place, such as `static:batch_size=64`."""
        parameter, own_size = self.near.size  # such as ("batch_size", 32)
        row = self.near.request.row
        if self.size is None or self.size == own_size or not isinstance(row, StrategySpec):
            return row
        return row.with_parameter(parameter, self.size)

    def seconds(self, samples: int) -> float:
        """Return about how long it takes on one core, by the rate of the strategy, not a clock."""
        settings, rate = self.near.request.settings, self.near.request.strategy.samples_per_second
        # Samples are followed to their ranks, which is slower, unless one plan has all of them.
        is_whole = settings.draws_all and settings.overflow != "split"
        if self.near.trained is not None or not (is_whole and settings.distribute in FROM_ONE_PLAN):
            rate = min(rate, _FOLLOWED_PER_SECOND)
        return samples / rate


def nearby(comparison: Comparison) -> Nearby:
    """Simulate each row of a comparison with five batch sizes or budgets around its own, on as many
    ranks, half and twice as many, in a few seconds: of a large corpus the nearest rows alone, or on
    a part of it, as follows from corpus and settings: the same on every machine.
    """
    # In file order the blocks of a subsample depend on the sizes, and so would the numbers.
    if comparison.subsample is not None and comparison.basis.order == "file":
        return Nearby()
    places = _places(comparison)
    share, drawn = _draw_part(comparison, places)
    samples = comparison.source if drawn is None else drawn.samples
    # The comparison's rows are used again where they are of the same samples: all, or its blocks.
    reuses_rows = drawn is None or comparison.subsample is not None
    epochs = EpochCache(samples, comparison.model, comparison.device)
    # By strategy and number of ranks; None where that leaves nothing to batch.
    known: dict[tuple[NamedRow, int], StrategyResult | None] = {}
    if reuses_rows:
        own_ranks = comparison.basis.world_size
        known = {(row.request.row, own_ranks): row for row in comparison.strategies}

    def simulate(name: NamedRow, world_size: int) -> StrategyResult | None:
        if (name, world_size) not in known:
            try:
                request = name.request(replace(comparison.basis, world_size=world_size))
                known[name, world_size] = epochs.row(request)
            except (InputError, OptionError):
                known[name, world_size] = None
        return known[name, world_size]

    rows, current_by_ranks = [], {}
    chosen = _in_time(places, comparison.current, len(samples), reuses_rows=reuses_rows)
    for place in chosen:
        current = simulate(comparison.current.request.row, place.world_size)
        result = simulate(place.row, place.world_size)
        # A speed-up needs both: the row, and the current setup on as many ranks.
        if current is not None and result is not None:
            current_by_ranks[place.world_size] = current
            rows.append(NearbyRow(of=place.near, size=place.size, result=result))
    return Nearby(
        rows=tuple(rows),
        current=current_by_ranks,
        too_slow=len(places) - len(chosen),
        without_batch=len(chosen) - len(rows),
        samples=len(samples),
        share=share,
    )


def _places(comparison: Comparison) -> list[_Place]:
    """Return every row that is near: each strategy with each size on each number of ranks."""
    own_ranks = comparison.basis.world_size
    ranks = sorted({max(1, own_ranks // 2), own_ranks, min(2 * own_ranks, MOST_RANKS)})
    # Batches that were made elsewhere exist only for the ranks that they were made for.
    if comparison.current.request.strategy.is_given:
        ranks = [own_ranks]
    places = []
    for row in comparison.strategies:
        _, own_size = row.size
        sizes: Collection[int | None] = [own_size]
        if own_size is not None and not row.request.strategy.is_given:
            smaller = {own_size // 4, own_size // 2} - {0}
            # own_size << k is own_size doubled k times.
            larger = [own_size << k for k in range(_SIZES - len(smaller))]
            sizes = sorted(smaller | {min(size, MAX_INT) for size in larger})
        for size, world_size in product(sizes, ranks):
            # Halvings count as doublings. A strategy without a size has None for both sizes: none.
            doublings = abs(log2(world_size / own_ranks)) + abs(log2((size or 1) / (own_size or 1)))
            places.append(_Place(row, size, world_size, doublings))
    return places


def _draw_part(comparison: Comparison, places: list[_Place]) -> tuple[float | None, Drawn | None]:
    """Return the share of the corpus for which there is time, and its samples; None for all."""
    basis, facts, source = comparison.basis, comparison.subsample, comparison.source
    if facts is not None:
        # The same blocks again: blocks drawn / blocks of the corpus, which are rounded up.
        share = facts.blocks / -(-facts.corpus_samples // facts.block_size)
        return share, draw(source, share, basis, widest_window=0)
    nearest_first = sorted(places, key=lambda place: place.doublings)
    seconds = 0.0
    for row in comparison.strategies:
        places_of_row = [place for place in nearest_first if place.near is row]
        # The first one is the comparison's own row, which is there already.
        seconds += sum(place.seconds(len(source)) for place in places_of_row[1 : 1 + _NEAREST])
    # In file order the blocks that are drawn depend on the strategies: see `nearby`.
    if seconds <= _SECONDS or basis.order == "file":
        return None, None
    share = next((share for share in _SHARES if share * seconds <= _SECONDS), _SHARES[-1])
    try:
        return share, draw(source, check_share(share, basis), basis, widest_window=0)
    except (InputError, OptionError):  # too few blocks, or classes are balanced
        return None, None


def _in_time(
    places: Sequence[_Place], current: StrategyResult, samples: int, *, reuses_rows: bool
) -> list[_Place]:
    """Return the places that can be simulated within `_SECONDS`: the nearest rows first."""
    chosen: set[_Place] = set()
    ranks_with_current: set[int] = set()  # numbers of ranks for which the current setup is chosen
    seconds_left = _SECONDS
    # Of places equally near, the current setup comes first: without it the others are no use.
    for place in sorted(places, key=lambda place: (place.doublings, place.near is not current)):
        is_current = place.near is current and place.row == current.request.row
        seconds = 0.0 if reuses_rows and place.doublings == 0 else place.seconds(samples)
        has_speed_up = is_current or place.world_size in ranks_with_current
        if has_speed_up and seconds <= seconds_left and len(chosen) < _MOST:
            chosen.add(place)
            seconds_left -= seconds
            if is_current:
                ranks_with_current.add(place.world_size)
    return [place for place in places if place in chosen]
