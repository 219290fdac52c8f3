"""Base class of all strategies: parameters are fields, the data is given to `plan`."""

from abc import ABC, abstractmethod
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from batchstat.errors import OptionError
from batchstat.lengths.arrays import Ints, offsets_from_sizes, round_up
from batchstat.lengths.sample_rows import SampleRows
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import check_fields, parameter
from batchstat.planning.algorithms.cutting import plan_single_samples
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.plan import BatchPlan, Window, Windows
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings

NOT_PACKED = "off"  # what turns packing off, where its parameter is not true or false


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """A way of batching: turns the lengths of one window into a `BatchPlan`. Raises OptionError: a
    number below 1, above 2,147,483,647 or not whole.
    """

    in_short: ClassVar[str] = ""  # what the strategy does, in a few words
    own_parameters: ClassVar[tuple[str, ...]] = ()  # not taken from the shared settings
    usual_batch_size: ClassVar[int | None] = None  # `batch_size` where nobody gives one
    order: ClassVar[str | None] = None  # its order of samples; None for that of the settings
    shuffles_as: ClassVar[str | None] = None  # the order that its batches amount to, if another
    distribute: ClassVar[str | None] = None  # how batches reach the ranks; None for the settings'
    remainder: ClassVar[str | None] = None  # what becomes of those that do not divide evenly
    loss: ClassVar[str] = "mean-per-batch"  # how losses of tokens become a step's, by its name
    packs_rows: ClassVar[bool] = False  # whether rows hold samples that attention must keep apart
    packed_by: ClassVar[str] = ""  # the parameter without which it does not pack; empty without one
    unpacked: ClassVar["type[Strategy] | None"] = None  # what its name means without packing
    drops_per: ClassVar[str] = ""  # what it drops the end of, such as `bucket`; empty for the epoch
    needs_epoch: ClassVar[bool] = False  # whether a window alone does not determine its batches
    is_given: ClassVar[bool] = False  # whether its batches were made elsewhere
    takes_sampler: ClassVar[bool] = True  # whether a script can give it batches of its own
    uses_wait: ClassVar[bool] = False  # whether its batches depend on where ranks wait
    varies_steps: ClassVar[bool] = False  # whether its steps have different numbers of batches
    samples_per_second: ClassVar[int] = 1_000_000  # planned and measured on one core, roughly
    turns: ClassVar[Ints | None] = None  # (n_turns, world_size) units; None if settings decide
    forward_widths: ClassVar[Ints | None] = None  # (n_batches, n_forwards); None: by longest rows
    # How many of its steps, from the first, an optimizer steps on; None for all.
    finished_steps: ClassVar[int | None] = None

    pad_to_multiple_of: int = 1  # to which widths are rounded up, before any budget is applied
    # Whether something is dropped where the epoch's last batch could hold more: that batch, unless
    # it was sorted, and then as many samples or a batch of any length.
    drop_last: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters, by their names."""
        return asdict(self)

    @classmethod
    def settable(cls) -> dict[str, "Field[Any]"]:
        """Return the fields that users set, by name: all but `setup`, which follows from `of`."""
        return {each.name: each for each in fields(cls) if each.name != "setup"}

    def check(self, settings: ResolvedSettings) -> None:  # noqa: B027 - most need no check
        """Raise OptionError if the strategy does not go with its settings; by default, it does."""

    @property
    def window_size(self) -> int | None:
        """Samples per window; None for the whole epoch."""
        return self.looks_ahead

    @property
    def attends_within_samples(self) -> bool:
        """Whether attention stays within the samples of a row: `within_samples`, if it has that."""
        return bool(self._parameter("within_samples"))

    @property
    def cuts_samples(self) -> bool:
        """Whether a sample may be split over several rows, and so over several batches."""
        return False

    @property
    def joins_samples(self) -> bool:
        """Whether a row is one text to the loss: a sample predicts the first token of the next."""
        return self.cuts_samples and not self.attends_within_samples

    def repeats_samples(self, settings: ResolvedSettings) -> bool:  # noqa: ARG002
        """Return whether a plan may hold a sample more than once."""
        return False

    @property
    def pads_to_edges(self) -> bool:
        """Whether a batch may be wider than its longest sample, by the edge of its bucket."""
        return False

    @property
    def looks_ahead(self) -> int | None:
        """`read_ahead`; None if the strategy has none, or uses the whole epoch."""
        return self._parameter("read_ahead")

    @property
    def batch_capacity(self) -> int | None:
        """`batch_size`; None if the number of samples per batch is not fixed."""
        return self._parameter("batch_size")

    @property
    def budget(self) -> int | None:
        """`tokens_per_batch`; None if the strategy has no budget of total tokens."""
        return self._parameter("tokens_per_batch")

    def for_rows(self, rows: SampleRows | None) -> Self:
        """Return the strategy with a budget for one row of each sample that is made of rows."""
        if rows is None or self.budget is None:
            return self
        of_rows: dict[str, Any] = {"tokens_per_batch": max(1, self.budget // max(rows.forwards))}
        return replace(self, **of_rows)

    def in_rows(self, plan: BatchPlan, samples: Samples) -> BatchPlan:
        """Return a plan of samples, one in each row, as what is computed: where they are made of
        several rows, those of each forward of a batch become a batch. A row begins where the one
        before it ends, as the part of a split sample does.
        """
        if samples.rows is None:
            return plan
        lengths, n = samples.rows_of(plan.samples, plan.lengths), len(samples.rows.forwards)
        of_entry = np.repeat(np.arange(len(plan)), np.diff(plan.batch_offsets))
        # (n_entries, k) the new batch of each row, by which rows are put in order.
        new_batches = of_entry[:, None] * n + np.repeat(np.arange(n), samples.rows.forwards)
        order = np.argsort(new_batches, axis=None, kind="stable")
        batch_offsets = offsets_from_sizes(np.bincount(new_batches.flat))
        in_order = lengths.flat[order]
        widths = np.repeat(plan.widths, n) if self.forward_widths is None else self.forward_widths
        # Forwards have widths of their own, unless rows are padded to a length of the strategy's.
        if n > 1 and self.forward_widths is None and self.row_length is None:
            longest = np.maximum.reduceat(in_order, batch_offsets[:-1])
            widths = round_up(longest, self.pad_to_multiple_of)
        # A row without a token does not begin where its sample does, either.
        ends = np.cumsum(np.maximum(lengths, 1), axis=1)
        return BatchPlan(
            samples=np.repeat(plan.samples, lengths.shape[1])[order],
            lengths=in_order,
            row_offsets=np.arange(len(order) + 1),
            batch_offsets=batch_offsets,
            unit_offsets=plan.unit_offsets * n,
            widths=widths.ravel(),
            starts=np.pad(ends, ((0, 0), (1, 0)))[:, :-1].ravel()[order],
        )

    def exceeds_own_budget(self, rows: Ints, widths: Ints) -> npt.NDArray[np.bool_] | None:
        """Return (n_batches,) whether each exceeds what the strategy allows, by (n_batches,) rows
        and widths; None if its limit is a number of tokens, which is compared elsewhere.
        """
        del rows, widths
        return None

    @property
    def row_length(self) -> int | None:
        """Tokens that every row has, or may hold; None if rows have no such length."""
        return None

    @property
    def sample_multiple(self) -> int:
        """`document_multiple`: each sample of a row is padded to a multiple of it; 1 without."""
        return self._parameter("document_multiple") or 1

    def _parameter(self, name: str) -> int | None:
        return vars(self).get(name)

    def keeps_short(self, window: Window | Windows) -> bool:
        """Return whether a batch that could hold more is kept at the end of a window."""
        return not (self.drop_last and window.last)

    def batch_rows(
        self, window: Window, order: Ints, offsets: Ints, widths: Ints | None = None
    ) -> BatchPlan:
        """Return batches of one sample per row, in (n,) `order`, at (n_batches + 1,) `offsets`,
        after which samples are dropped; as wide as (n_batches,) `widths`, or the longest sample.
        They are shuffled if the strategy has `shuffle_batches`.
        """
        is_shuffled = self._parameter("shuffle_batches")
        sequence = window.rng.permutation(len(offsets) - 1) if is_shuffled else None
        plan = plan_single_samples(window.lengths, order, offsets, widths, sequence)
        return replace(plan, widths=round_up(plan.widths, self.pad_to_multiple_of))

    def summary(self, stats: LengthStats, rng: np.random.Generator) -> BatchTable | None:  # noqa: ARG002
        """Return the batches of an epoch that is a single window, from the histogram of its lengths
        alone, as `plan` makes them; None, the default, if that does not say what they are.
        """
        return None

    def summary_together(self, windows: Windows) -> BatchTable | None:  # noqa: ARG002
        """Return `plan_together` as a table, from lengths; None, the default, if that cannot be."""
        return None

    @abstractmethod
    def plan(self, window: Window) -> BatchPlan:
        """Put every sample of the window in exactly one batch (except by `drop_last`)."""

    def plan_together(self, windows: Windows) -> BatchPlan:
        """Return consecutive windows as one plan; its samples count from the start of the first."""
        plans = [self.plan(window) for window in windows]
        if len(plans) == 1:
            return plans[0]
        firsts = range(0, len(windows.lengths), windows.size)
        return BatchPlan.concatenate(
            [
                replace(plan, samples=plan.samples + first)
                for plan, first in zip(plans, firsts, strict=True)
            ]
        )


@dataclass(frozen=True, kw_only=True)
class PacksDocuments(Strategy):
    """A strategy with several samples per row, each padded to a multiple of its own. Megatron and
    Transformer Engine pad every sample of a packed row: context parallelism over cp ranks needs
    multiples of 2 x cp, FP8 of 16. This padding counts as any other, and a row holds `max_length`
    rounded up to that multiple. Raises OptionError: `document_multiple` where samples are cut.
    """

    packs_rows: ClassVar[bool] = True

    document_multiple: int = parameter("Pad each sample of a row to a multiple of N tokens.", 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.document_multiple > 1 and self.cuts_samples:
            raise OptionError(
                f"document_multiple={self.document_multiple} needs whole samples, and "
                "wrapped rows cut them",
                "choose another way of packing",
            )
