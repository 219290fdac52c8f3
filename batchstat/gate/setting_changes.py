"""Changes of settings that may keep a limit on a number of the strategy, smaller ones first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from batchstat.gate.limits import Limit
from batchstat.lengths.arrays import round_up
from batchstat.parameters import with_parameter
from batchstat.planning.samplers.spec import name_and_parameters
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.sweep import read_aheads

Changes = Mapping[str, Any]
"""Values by the names of settings, and `current`."""

_COVERAGE = ("coverage", "unique", "accuracy")
"""How names of numbers begin that say how much of the corpus is computed."""
_LOST = ("truncated", "dropped")
"""How names of numbers begin that say how much of the samples is lost."""
_LARGEST_BATCH = ("over_budget_batches", "max_batch_tokens")
_DISTRIBUTIONS = ("batches", "balanced", "samples")
_REMAINDERS = ("repeat", "dummy", "drop", "uneven")
"""Values of `remainder` in the order in which they are tried: the first two lose no sample."""


def changes_of(
    limit: Limit, profile: Profile, spec: StrategySpec, settings: Settings, by_keys: bool = False
) -> Iterator[Changes]:
    """Yield changes that affect the number of a limit, each by itself.

    Args:
        limit: a limit on a number of the strategy.
        profile: the corpus.
        spec: the strategy.
        settings: the settings, as given.
        by_keys: whether the setup is a trainer's configuration, whose keys decide its parameters.
    """
    number = limit.path.removeprefix("strategy.")
    basis = settings.resolve(profile.stats.max, profile.stated_max)
    setup = _Setup(profile, spec, spec.request(basis), settings, basis, by_keys)
    if number.startswith(_COVERAGE):
        yield from setup.cover_more()
        yield from setup.lose_less()
        yield from setup.distribute_differently()
    elif number.startswith(_LOST):
        yield from setup.lose_less()
        # Distribution across ranks can drop samples, but truncates none.
        if number.startswith("dropped"):
            yield from setup.distribute_differently()
    elif number.startswith(("duplicated", "rank")):
        yield from setup.distribute_differently()
    elif number.startswith("trained"):
        yield from setup.weigh_tokens_equally()
        yield from setup.sort_more_together()
    elif number in _LARGEST_BATCH:
        yield from setup.shrink_largest_batch(limit)
    else:  # padding, fill, numbers of batches and what else better sorted batches improve
        yield from setup.sort_more_together()


def depends_on_batching(limit: Limit) -> bool:
    """Return whether other batches of the same samples may change a limited number. Which samples
    are in batches, and how much of each is lost, stays the same with them.
    """
    return not limit.path.removeprefix("strategy.").startswith((*_COVERAGE, *_LOST))


def may_grow_batches(limit: Limit) -> bool:
    """Return whether a remedy may make batches larger: where tokens are lost, longer samples are
    the remedy, and larger batches their price.
    """
    return limit.path.removeprefix("strategy.").startswith(_LOST)


@dataclass(frozen=True)
class _Setup:
    """The setup of a check.

    Attributes:
        profile: the corpus.
        spec: the strategy.
        request: the strategy with all of its parameters and settings.
        settings: the settings, as given.
        basis: the settings decided for this corpus.
        by_keys: whether keys of a trainer's configuration decide its parameters.
    """

    profile: Profile
    spec: StrategySpec
    request: RowRequest
    settings: Settings
    basis: ResolvedSettings
    by_keys: bool

    @property
    def strategy(self) -> Strategy:
        """The parsed strategy."""
        return self.request.strategy

    def assign(self, key: str, value: Any) -> Changes:
        """Return the change that gives a parameter a value. A parameter in the strategy's text
        overrides the setting of its name: then the text changes, as to
        `current="static:batch_size=4"`, unless it follows from a trainer's keys.
        """
        if self.request.sets(key) and not self.by_keys:
            return {"current": self.spec.with_parameter(key, value)}
        return {key: value}

    def sort_more_together(self) -> Iterator[Changes]:
        """Yield larger values of `max_samples`, the most samples in a batch, and of `read_ahead`,
        where the strategy has them.
        """
        if (max_samples := self.request.params.get("max_samples")) is not None:
            while max_samples < self.budget:  # no batch can have more samples than tokens
                max_samples = min(2 * max_samples, self.budget)
                yield self.assign("max_samples", max_samples)
        if (read_ahead := self.strategy.looks_ahead) is not None:
            # The values that a comparison would try with so many samples, the smallest first.
            for other_read_ahead in read_aheads(len(self.profile)):
                if other_read_ahead > read_ahead:
                    yield self.assign("read_ahead", other_read_ahead)

    def shrink_largest_batch(self, limit: Limit) -> Iterator[Changes]:
        """Yield changes that make the largest batch small enough for a limit on it: a smaller
        budget or fewer samples per batch, then fewer tokens per sample.
        """
        # What the largest batch may have: the budget, or what the limit allows.
        most_tokens = self.budget
        if limit.path.endswith("max_batch_tokens"):
            # Smaller batches help only against an upper bound, and no batch is below one token.
            if limit.bound != "max" or limit.threshold < 1:
                return
            most_tokens = int(limit.threshold)
            if self.strategy.budget is not None:
                yield self.assign("tokens_per_batch", most_tokens)
        batch_size = self.strategy.batch_capacity
        rows_that_fit = most_tokens // self.width
        if batch_size is not None and 0 < rows_that_fit < batch_size:
            yield self.assign("batch_size", rows_that_fit)
        # The longest row that fits in a batch alone; rows are padded to a multiple.
        multiple = self.strategy.pad_to_multiple_of
        longest = most_tokens // multiple * multiple
        if 0 < longest < self.basis.max_length:
            yield self.truncate_at(longest)
            if batch_size is not None and batch_size > 1:
                yield {**self.truncate_at(longest), **self.assign("batch_size", 1)}

    def truncate_at(self, length: int) -> Changes:
        """Return the change of `max_length`: of the setting, and of the strategy if it sets one."""
        return {"max_length": length, **self.assign("max_length", length)}

    def distribute_differently(self) -> Iterator[Changes]:
        """Yield other values of the settings `distribute` and `remainder`, which say how batches
        are distributed across ranks: first changes of one of the two, then of both.
        """
        settings = self.settings
        if settings.world_size == 1:
            return
        distributions = [value for value in _DISTRIBUTIONS if value != settings.distribute]
        remainders = [value for value in _REMAINDERS if value != settings.remainder]
        yield from ({"distribute": distribution} for distribution in distributions)
        yield from ({"remainder": remainder} for remainder in remainders)
        for remainder, distribution in product(remainders, distributions):
            yield {"distribute": distribution, "remainder": remainder}

    def weigh_tokens_equally(self) -> Iterator[Changes]:
        """Yield the loss under which all trained tokens weigh the same, and a distribution that
        gives ranks similar numbers of them.
        """
        yield {"loss": "token-sum"}
        if self.settings.world_size > 1 and self.settings.balance_by != "trained":
            yield {"distribute": "balanced", "balance_by": "trained"}

    def cover_more(self) -> Iterator[Changes]:
        """Yield samplers that skip less of the corpus, the nearest to the present one first; then
        that no class of the corpus is left out (`keep_labels`).
        """
        sampler = self.settings.sampler
        name, _ = name_and_parameters(sampler)
        if name == "upsampling":  # with `even`, no sample is skipped
            yield {"sampler": with_parameter(sampler, "even", "true")}
        # Each of these skips less than those before it, and any other sampler skips more.
        samplers = ["weighted-random", "upsampling", "none"]
        first = samplers.index(name) + 1 if name in samplers else 0
        for other_sampler in samplers[first:]:
            yield {"sampler": other_sampler}
        if self.settings.keep_labels:
            yield {"keep_labels": ()}

    def lose_less(self) -> Iterator[Changes]:
        """Yield changes that drop fewer samples or truncate less."""
        if self.strategy.drop_last:
            yield self.assign("drop_last", value=False)
        # What is done with buckets that are not full at the end of the epoch.
        if self.request.params.get("leftovers") == "drop":
            yield self.assign("leftovers", "keep")
        if self.basis.overflow == "drop":
            yield {"overflow": "truncate"}
        # The longest sample, or the tokenizer's stated maximum where that is less.
        longest = min(self.profile.stated_max or self.profile.stats.max, self.profile.stats.max)
        candidates = {truncation.max_length for truncation in self.profile.truncation}
        for length in sorted(candidates | {longest}):
            if self.basis.max_length < length <= longest:
                yield self.truncate_at(length)
        if self.basis.overflow != "split" and _can_be_split(self.profile, self.settings):
            yield {"overflow": "split"}

    @property
    def width(self) -> int:
        """Width of the widest row, in tokens."""
        return round_up(self.basis.max_length, self.strategy.pad_to_multiple_of)

    @property
    def budget(self) -> int:
        """The most tokens per batch, whether the strategy has a budget or a batch size."""
        if self.strategy.budget is not None:
            return self.strategy.budget
        batch_size = self.strategy.batch_capacity
        # By the user, or as a framework's usual one.
        is_chosen = self.settings.batch_size is not None or self.request.sets("batch_size")
        if batch_size is not None and is_chosen:
            return min(self.basis.tokens_per_batch, batch_size * self.width)
        # No batch size, or one that follows from the settings' budget itself.
        return self.basis.tokens_per_batch


def _can_be_split(profile: Profile, settings: Settings) -> bool:
    """Return whether parts of a sample are valid samples: text without a label, pair or chat, which
    apply to all of it.

    For token ids and lengths it is unknown.
    """
    options = profile.corpus.options
    is_pair = len(options.text_column) > 1
    needs_whole = profile.labels is not None or settings.sampler != "none" or is_pair
    return profile.tokenizer is not None and options.content == "text" and not needs_whole
