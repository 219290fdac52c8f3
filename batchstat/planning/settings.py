"""The settings that all strategies share: as given by the user, and with all defaults decided."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property

from batchstat.errors import OptionError
from batchstat.lengths.arrays import round_up
from batchstat.parameters import MOST, MOST_RANKS, check_fields, one_of
from batchstat.planning.distribution import DISTRIBUTIONS, REMAINDERS
from batchstat.planning.epoch import OVERFLOWS
from batchstat.planning.order import ORDERS
from batchstat.planning.samplers.base import Sampler
from batchstat.planning.samplers.spec import parse_sampler

DEFAULT_BUDGET = 16_384
"""Total tokens per batch where neither a budget nor a batch size is given."""


_MOST_PLANNED = 10_000
"""Ranks, if each plans its own share: about a millisecond per rank and strategy."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a comparison or a sampler; a strategy's own parameters override them.

    Attributes:
        tokens_per_batch: the budget: the most total tokens per batch, on one rank; None for
            `batch_size` × `max_length` if a batch size is given, else for 16,384, or `max_length`
            if that is larger.
        max_length: the most tokens per sample; None for the tokenizer's stated maximum or the
            longest sample, whichever is smaller.
        overflow: what happens to longer samples: `truncate`, `drop` or `split`.
        batch_size: samples per batch, for strategies with a fixed number; None for
            `tokens_per_batch` // `max_length`, so that every strategy has the same peak.
        read_ahead: how many samples are sorted together (the sort window).
        max_samples: the most samples per batch of a strategy with a token budget; None for no
            limit.
        order: the order of the samples: `file`, `shuffled` or `blocks`.
        seed: random seed for the order of samples and of batches, combined with `epoch`.
        epoch: the epoch, from 0; combined with `seed`.
        world_size: the number of ranks.
        distribute: what is distributed across ranks: `batches` of one plan in turn, `samples` (as
            torch's DistributedSampler), `independent` (samples, with a different seed on each
            rank), consecutive `chunks` of the corpus, or `balanced` (batches of similar cost in
            each step).
        remainder: what happens to batches that do not divide evenly over ranks: `repeat` from the
            start, `drop`, `uneven` (some ranks run a step more), `dummy` (the other ranks run an
            empty step) or `spread` (the rows of the last batches over all ranks).
        gradient_accumulation_steps: batches per optimizer step, on each rank.
        pad_to_multiple_of: a batch's width is rounded up to a multiple of this many tokens.
        drop_last: whether an incomplete last batch is dropped.
        sampler: the sampler that draws an epoch's samples by class, as it is written.
        keep_labels: the labels whose samples are used; all if none are given.

    Raises:
        OptionError: a number out of range or not whole, or an unknown name.
    """

    tokens_per_batch: int | None = None
    max_length: int | None = None
    overflow: str = "truncate"
    batch_size: int | None = None
    read_ahead: int = 10_000
    max_samples: int | None = None
    order: str = "shuffled"
    seed: int = 0
    epoch: int = 0
    world_size: int = 1
    distribute: str = "batches"
    remainder: str = "repeat"
    gradient_accumulation_steps: int = 1
    pad_to_multiple_of: int = 1
    drop_last: bool = False
    sampler: str = "none"
    keep_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, least={"seed": 0, "epoch": 0}, most={"world_size": MOST_RANKS})
        one_of("overflow", self.overflow, OVERFLOWS)
        one_of("order", self.order, ORDERS)
        one_of("distribute", self.distribute, DISTRIBUTIONS)
        one_of("remainder", self.remainder, REMAINDERS)
        if not isinstance(self.sampler, str):
            raise OptionError(f"sampler={self.sampler!r}: must be text, such as 'downsampling'")
        object.__setattr__(self, "keep_labels", _labels(self.keep_labels))
        if self.world_size > _MOST_PLANNED and self.distribute not in ("batches", "balanced"):
            raise OptionError(
                f"world_size={self.world_size} with distribute={self.distribute}: each rank has "
                f"its own plan, for at most {_MOST_PLANNED:,} ranks: lower world_size, or set "
                "distribute=batches"
            )
        if self.remainder == "spread" and self.distribute not in ("batches", "balanced"):
            raise OptionError(
                f"remainder=spread needs distribute=batches or balanced, not {self.distribute}"
            )
        made_for = self.class_sampler.batch_size
        if made_for is not None and self.order != "shuffled":
            raise OptionError(
                f"order={self.order}: {self.sampler} defines its own order; remove --order"
            )
        if made_for is not None and self.batch_size is None:
            object.__setattr__(self, "batch_size", made_for)

    @cached_property
    def class_sampler(self) -> Sampler:
        """The sampler that `sampler` names."""
        return parse_sampler(self.sampler)

    def decide(
        self, longest: int, stated_max: int | None, current_batch_size: int | None = None
    ) -> "Basis":
        """Return these settings with all defaults decided.

        Args:
            longest: tokens of the longest sample.
            stated_max: the tokenizer's maximum, if it states one.
            current_batch_size: batch size of the current setup, if its specification has one; it
                sets the budget as `batch_size` does.
        """
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        max_length = self.max_length or max(1, min(stated_max or longest, longest))
        widest = round_up(max_length, self.pad_to_multiple_of)
        fixed = current_batch_size or self.batch_size
        least = max(DEFAULT_BUDGET, widest) if fixed is None else fixed * widest
        budget = self.tokens_per_batch or min(least, MOST)
        decided = {
            "max_length": max_length,
            "tokens_per_batch": budget,
            "batch_size": self.batch_size or max(1, budget // widest),
        }
        return Basis(**given | decided)


@dataclass(frozen=True, kw_only=True)
class Basis(Settings):
    """Settings with all defaults decided, as a report states them above its table."""

    tokens_per_batch: int = field()
    max_length: int = field()
    batch_size: int = field()


def _labels(labels: object) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise OptionError(f"keep_labels={labels!r}: must be a list of labels")
    return tuple(str(label) for label in labels)
