"""The settings that all strategies share: as given by the user, and with all defaults decided."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from batchstat.errors import OptionError
from batchstat.parameters import (
    MAX_INT,
    MOST_RANKS,
    MOST_SEED,
    check_fields,
    documented,
    names_in,
    option,
    parameter,
)
from batchstat.planning.rules import (
    DISTRIBUTIONS,
    FROM_ONE_PLAN,
    LOSSES,
    NUMBERS,
    ORDERS,
    OVERFLOWS,
    REMAINDERS,
    SHUFFLED,
    WAITS,
)
from batchstat.words import short

if TYPE_CHECKING:
    from batchstat.planning.samplers.base import Sampler

_NO_SAMPLER = "none"  # the sampler that draws every sample once
DEFAULT_CURRENT = "static"  # the current setup where none is named
DEFAULT_BUDGET = 16_384  # total tokens per batch where neither a budget nor a batch size is given
_MOST_PLANNED = 10_000  # ranks with plans of their own: a millisecond per rank and strategy

SAMPLER_NAMES = names_in("batchstat.planning.samplers", "SAMPLERS")


class SettingsOptions(TypedDict, total=False):
    """The fields of `Settings`, as keywords of public functions."""

    tokens_per_batch: int | None
    max_length: int | None
    overflow: str
    batch_size: int | None
    read_ahead: int
    max_samples: int | None
    order: str
    seed: int
    epoch: int
    world_size: int
    distribute: str
    balance_by: str
    remainder: str
    gradient_accumulation_steps: int
    wait: str
    loss: str | None
    pad_to_multiple_of: int
    drop_last: bool
    sampler: str
    keep_labels: tuple[str, ...]


def _batching(default: Any, help: str, metavar: str | None = "N", **more: Any) -> Any:
    return option(default, help, "Batching", metavar, **more)


def _ranks(default: Any, help: str, metavar: str = "N", **more: Any) -> Any:
    return option(default, help, "Ranks", metavar, **more)


@documented
@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a comparison or a sampler; a strategy's own parameters override them.

    Example:
        >>> batchstat.Settings(batch_size=8, max_length=512).world_size
        1

    Raises:
        OptionError: a number out of range or not whole, or an unknown name.
    """

    tokens_per_batch: int | None = _batching(
        None,
        "Budget: most tokens per batch, with padding.",
        shown="`batch_size` x `max_length`, else 16384 or `max_length`",
        is_common=True,
    )
    max_length: int | None = _batching(
        None,
        "Most tokens per sample.",
        shown="the tokenizer's maximum, at most the longest sample",
        is_common=True,
    )
    overflow: str = _batching(
        "truncate",
        "What happens to longer samples: truncate, drop or split.",
        "RULE",
        values=OVERFLOWS,
    )
    batch_size: int | None = _batching(
        None,
        "Samples per batch of fixed, static and bucketed.",
        shown="`tokens_per_batch` // `max_length`",
        is_common=True,
    )
    read_ahead: int = _batching(
        10_000, "How many samples are sorted together (the sort window).", is_common=True
    )
    max_samples: int | None = _batching(
        None, "Most samples per batch of a strategy with a token budget.", shown="no limit"
    )
    order: str = _batching(
        "shuffled", "Order of samples: file, shuffled, torch or blocks.", "ORDER", values=ORDERS
    )
    seed: int = _batching(
        0, "Random seed of samples and batches, combined with `epoch`.", least=0, most=MOST_SEED
    )
    epoch: int = _batching(0, "Epoch to simulate, from 0.", least=0)
    world_size: int = _ranks(1, "Number of ranks.", most=MOST_RANKS, is_common=True)
    distribute: str = _ranks(
        "batches",
        "What is distributed across ranks: batches of one plan in turn, samples (as torch's "
        "DistributedSampler), independent (samples, with a different seed on each rank), chunks of "
        "the corpus, or balanced (batches of similar cost in each step).",
        "RULE",
        values=DISTRIBUTIONS,
    )
    balance_by: str = _ranks(
        "length",
        "What distribute=balanced makes similar in each step: length or trained.",
        "NUMBER",
        values=NUMBERS,
    )
    remainder: str = _ranks(
        "repeat",
        "Batches that do not divide evenly over ranks: repeat, drop, uneven, dummy (steps) or "
        "spread over all.",
        "RULE",
        values=REMAINDERS,
    )
    gradient_accumulation_steps: int = _ranks(1, "Batches per optimizer step, on each rank.")
    wait: str = _ranks(
        "step",
        "Where ranks wait for each other: at the end of each step (DDP), or in each micro-batch "
        "(FSDP, ZeRO-2, ZeRO-3, DDP without no_sync).",
        "PLACE",
        values=WAITS,
    )
    loss: str | None = _ranks(
        None,
        "How the losses of tokens become that of a step, for the weight of a trained token: "
        "mean-per-batch, num-items-in-batch, num-items-per-rank, token-sum, sequence-mean, trl, "
        "axolotl or unknown.",
        "NAME",
        shown="that of the current setup, where it is known which tokens are trained",
        told="How the losses of tokens become that of a step; null where no weights are reported.",
        values=LOSSES,
    )
    pad_to_multiple_of: int = _batching(1, "Round row widths up to a multiple of N tokens.")
    drop_last: bool = _batching(False, "Drop an incomplete last batch.", None)
    sampler: str = option(
        _NO_SAMPLER,
        "How an epoch samples classes, such as downsampling, count=N or weights=A:1,B:3; "
        "`batchstat explain sampler` names all.",
        "Classes",
        "SPEC",
        names=SAMPLER_NAMES,
    )
    keep_labels: tuple[str, ...] = option(
        (),
        "Use only samples with these labels: A,B, or a JSON list if labels contain commas. "
        "Repeatable.",
        "Classes",
        "LABELS",
        shown="all",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        # Each letter of a single string would become a label.
        if isinstance(self.keep_labels, str) or not isinstance(self.keep_labels, Iterable):
            raise OptionError(f"keep_labels={short(self.keep_labels)}", "must be a list of labels")
        object.__setattr__(self, "keep_labels", tuple(map(str, self.keep_labels)))
        if self.world_size > _MOST_PLANNED and self.distribute not in FROM_ONE_PLAN:
            raise OptionError(
                f"world_size={self.world_size} with distribute={self.distribute}: each rank has "
                f"its own plan, for at most {_MOST_PLANNED:,} ranks",
                "lower world_size, or set distribute=batches",
            )
        # Ranks with plans of their own have no last batches in common.
        if self.remainder == "spread" and self.distribute not in FROM_ONE_PLAN:
            raise OptionError(
                f"remainder=spread needs distribute=batches or balanced, not {self.distribute}"
            )
        # Samplers such as per-batch draw whole batches in sequence. Their size is the sampler's,
        # and another order would tear the batches apart.
        # The default is not parsed: what parses samplers takes a tenth of a short command to load.
        drawn_size = None if self.sampler == _NO_SAMPLER else self.class_sampler.batch_size
        if drawn_size is not None and self.order not in SHUFFLED:
            raise OptionError(
                f"order={self.order}: {self.sampler} defines its own order", "remove it"
            )
        if drawn_size is not None and self.batch_size is None:
            object.__setattr__(self, "batch_size", drawn_size)

    @cached_property
    def class_sampler(self) -> "Sampler":
        """The sampler that `sampler` names."""
        from batchstat.planning.samplers.spec import parse_sampler

        return parse_sampler(self.sampler)

    @property
    def draws_all(self) -> bool:
        """Whether an epoch has every sample of the corpus once."""
        from batchstat.planning.samplers.per_class import NoSampling

        return isinstance(self.class_sampler, NoSampling) and not self.keep_labels

    def resolve(
        self,
        longest: int,
        stated_max: int | None,
        current_batch_size: int | None = None,
        current_loss: str | None = None,
        current_multiple: int = 1,
        rows: int = 1,
    ) -> "ResolvedSettings":
        """Return these settings with all defaults decided, for a corpus whose longest sample has
        `longest` tokens and a tokenizer that states a maximum. Of the current setup, the batch size
        sets the budget as `batch_size` does, and the loss is None if no one asks for weights;
        `rows` are those of a batch for each of its samples.
        """
        from batchstat.lengths.arrays import round_up  # not above: `--help` loads no NumPy

        given = {each.name: getattr(self, each.name) for each in fields(self)}
        max_length = self.max_length or max(1, min(stated_max or longest, longest))
        # A row as wide as any: a budget must hold one. In the current setup it may be wider.
        widest = round_up(max_length, self.pad_to_multiple_of)
        widest_in_setup = max(widest, round_up(max_length, current_multiple))
        given_size = current_batch_size or self.batch_size
        # A batch of the given size, as wide as any; without a size the usual budget.
        largest = given_size * rows * widest_in_setup if given_size else max(DEFAULT_BUDGET, widest)
        budget = self.tokens_per_batch or min(largest, MAX_INT)
        decided = {
            "max_length": max_length,
            "tokens_per_batch": budget,
            "batch_size": given_size or max(1, budget // (widest * rows)),
            "given_batch_size": given_size,
            "loss": self.loss or current_loss,
        }
        return ResolvedSettings(**given | decided)


_GIVEN = {each.name: each.metadata for each in fields(Settings)}


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings(Settings):
    """Settings with all defaults decided, as a report states them above its table."""

    tokens_per_batch: int = field(metadata=_GIVEN["tokens_per_batch"])
    max_length: int = field(metadata=_GIVEN["max_length"])
    batch_size: int = field(metadata=_GIVEN["batch_size"])
    # That of the settings or the current setup; None if `batch_size` follows from the budget.
    given_batch_size: int | None = parameter(
        "The batch size that was given.",
        None,
        told="The batch size that was given, or that the current setup has; null where batch_size "
        "follows from the budget.",
    )

    @property
    def widest(self) -> int:
        """Tokens to which a row of `max_length` is padded."""
        from batchstat.lengths.arrays import round_up

        return round_up(self.max_length, self.pad_to_multiple_of)
