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

# Numbers of a strategy by what changes them; of the first two, how their names begin.
_SEEN = ("coverage", "unique", "accuracy")
"""How much of the corpus is computed."""
_LOST = ("truncated", "dropped")
_PEAK = ("over_budget_batches", "max_batch_tokens")


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
    now = _Now(profile, spec, spec.request(basis), settings, basis, by_keys)
    if number.startswith(_SEEN):
        yield from now.seeing_more()
    if number.startswith((*_SEEN, *_LOST)):
        yield from now.losing_less()
        # Distribution across ranks can drop samples, but truncates none.
        if not number.startswith("truncated"):
            yield from now.distributed_otherwise()
        return
    if number.startswith(("duplicated", "rank")):
        yield from now.distributed_otherwise()
    elif number.startswith("trained"):
        yield from now.weighing_alike()
        yield from now.looking_further()
    elif number in _PEAK:
        yield from now.smaller(limit)
    else:  # padding, fill, numbers of batches and what else better sorted batches improve
        yield from now.looking_further()


def helps_by_sorting(limit: Limit) -> bool:
    """Return whether other batches of the same samples may help: not where the number depends only
    on which samples, and how much of each, are in batches.
    """
    return not limit.path.removeprefix("strategy.").startswith((*_SEEN, *_LOST))


def may_grow(limit: Limit) -> bool:
    """Return whether a remedy may make batches larger: where tokens are lost, longer samples are
    the remedy, and larger batches their price.
    """
    return limit.path.removeprefix("strategy.").startswith(_LOST)


@dataclass(frozen=True)
class _Now:
    """The setup of a check.

    Attributes:
        profile: the corpus.
        spec: the strategy.
        request: the same with its settings.
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

    def set(self, key: str, value: Any) -> Changes:
        """Return the change of one parameter. Where the strategy sets it, that overrides settings:
        the change is then one of the strategy's text, such as `current="static:batch_size=4"`.
        """
        if self.request.sets(key) and not self.by_keys:
            return {"current": self.spec.with_parameter(key, value)}
        return {key: value}

    def looking_further(self) -> Iterator[Changes]:
        """Yield larger sort windows and limits on samples per batch."""
        if (max_samples := self.request.params.get("max_samples")) is not None:
            while max_samples < self.budget:  # no batch can have more samples than tokens
                max_samples = min(2 * max_samples, self.budget)
                yield self.set("max_samples", max_samples)
        if (read_ahead := self.strategy.looks_ahead) is not None:
            # Sizes worth trying for so many samples, the smallest first.
            for larger in read_aheads(len(self.profile)):
                if larger > read_ahead:
                    yield self.set("read_ahead", larger)

    def smaller(self, limit: Limit) -> Iterator[Changes]:
        """Yield changes that make the largest batch small enough for a limit on the peak: a smaller
        budget or fewer samples per batch, then fewer tokens per sample.
        """
        most_tokens = self.budget
        if limit.path.endswith("max_batch_tokens"):
            # Smaller batches help no lower bound, and none has less than a token.
            if limit.bound != "max" or limit.threshold < 1:
                return
            most_tokens = int(limit.threshold)
            if self.strategy.budget is not None:
                yield self.set("tokens_per_batch", most_tokens)
        batch_size = self.strategy.batch_capacity
        # `fewer` rows of full width fit: 0 where not even one does.
        if batch_size is not None and (fewer := most_tokens // self.width) and fewer < batch_size:
            yield self.set("batch_size", fewer)
        # The longest row that fits in a batch alone: a multiple, since rows are padded to one.
        multiple = self.strategy.pad_to_multiple_of
        longest = most_tokens // multiple * multiple
        if 0 < longest < self.basis.max_length:
            yield self.cut_at(longest)
            if batch_size is not None and batch_size > 1:
                yield {**self.cut_at(longest), **self.set("batch_size", 1)}

    def cut_at(self, length: int) -> Changes:
        """Return the change of `max_length`: of the setting, and of the strategy if it sets one."""
        return {"max_length": length, **self.set("max_length", length)}

    def distributed_otherwise(self) -> Iterator[Changes]:
        """Yield other ways to distribute across ranks: the smallest changes first, of equal ones
        those that lose nothing first.
        """
        if self.settings.world_size == 1:
            return
        distribute, remainder = self.settings.distribute, self.settings.remainder
        ways = list(dict.fromkeys((distribute, "batches", "balanced", "samples")))
        remainders = list(dict.fromkeys((remainder, "repeat", "dummy", "drop", "uneven")))

        def how_far(both: tuple[str, str]) -> tuple[int, int]:
            """Return how many of the two settings change, then the place of the remainder in
            `remainders`, where the present one is first and then those that lose nothing.
            """
            way, rest = both
            return (way != distribute) + (rest != remainder), remainders.index(rest)

        for other_distribution, other_remainder in sorted(product(ways, remainders), key=how_far):
            changed = {"distribute": other_distribution} if other_distribution != distribute else {}
            changed |= {"remainder": other_remainder} if other_remainder != remainder else {}
            if changed:
                yield changed

    def weighing_alike(self) -> Iterator[Changes]:
        """Yield the loss under which all trained tokens weigh the same, and a distribution that
        gives ranks similar numbers of them.
        """
        yield {"loss": "token-sum"}
        if self.settings.world_size > 1 and self.settings.balance_by != "trained":
            yield {"distribute": "balanced", "balance_by": "trained"}

    def seeing_more(self) -> Iterator[Changes]:
        """Yield samplers that skip less of the corpus, the nearest to the present one first, and a
        corpus of which no class is left out.
        """
        sampler = self.settings.sampler
        name, _ = name_and_parameters(sampler)
        if name == "upsampling":  # with `even`, no sample is skipped
            yield {"sampler": with_parameter(sampler, "even", "true")}
        elif name != "none":
            if name != "weighted-random":
                yield {"sampler": "weighted-random"}
            yield {"sampler": "upsampling"}
        if name != "none":
            yield {"sampler": "none"}
        if self.settings.keep_labels:
            yield {"keep_labels": ()}

    def losing_less(self) -> Iterator[Changes]:
        """Yield changes that drop fewer samples or truncate less."""
        if self.strategy.drop_last:
            yield self.set("drop_last", value=False)
        # Of buckets that are not full at the end of the epoch.
        if self.request.params.get("leftovers") == "drop":
            yield self.set("leftovers", "keep")
        if self.basis.overflow == "drop":
            yield {"overflow": "truncate"}
        # The longest sample, or the tokenizer's stated maximum where that is less.
        longest = min(self.profile.stated_max or self.profile.stats.max, self.profile.stats.max)
        candidates = {truncation.max_length for truncation in self.profile.truncation}
        for length in sorted(candidates | {longest}):
            if self.basis.max_length < length <= longest:
                yield self.cut_at(length)
        if self.basis.overflow != "split" and _can_be_split(self.profile, self.settings):
            yield {"overflow": "split"}

    @property
    def width(self) -> int:
        """Width of the widest row, in tokens."""
        return round_up(self.basis.max_length, self.strategy.pad_to_multiple_of)

    @property
    def budget(self) -> int:
        """The most tokens per batch: the strategy's budget if it has one; else so many full rows as
        the batch size allows, if it is given or the framework's usual one; else the settings'
        budget, from which the batch size follows.
        """
        if self.strategy.budget is not None:
            return self.strategy.budget
        size = self.strategy.batch_capacity
        is_size_chosen = self.settings.batch_size is not None or self.request.sets("batch_size")
        if size is None or not is_size_chosen:
            return self.basis.tokens_per_batch
        return min(self.basis.tokens_per_batch, size * self.width)


def _can_be_split(profile: Profile, settings: Settings) -> bool:
    """Return whether parts of a sample are valid samples: text without a label, pair or chat, which
    apply to all of it.

    For token ids and lengths it is unknown.
    """
    options = profile.corpus.options
    is_pair = len(options.text_column) > 1
    needs_whole = profile.labels is not None or settings.sampler != "none" or is_pair
    return profile.tokenizer is not None and options.content == "text" and not needs_whole
