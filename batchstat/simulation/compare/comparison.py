"""`Comparison`: the results of `compare`, as one record of counts with ratios as properties."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel
from batchstat.documents.comparison import Bounds, LearningRateHint
from batchstat.documents.grouping import Sweep
from batchstat.documents.spreads import SampleFacts
from batchstat.errors import OptionError
from batchstat.findings import Finding
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.run_facts import RunFacts
from batchstat.simulation.compare.changes import Changes, learning_rate_hint
from batchstat.simulation.compare.step_bound import StepBound, step_bound
from batchstat.simulation.device import Device
from batchstat.simulation.results import StrategyResult
from batchstat.training.batch_sampler import BatchSampler

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = (
    *("strategy", "padding_ratio", "speed_up", "steps"),
    *("samples_per_batch_min", "samples_per_batch_max", "shuffling"),
)
"""The first columns of a frame."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Strategies side by side on the same lengths.

    `comparison["token-budget"]` is the row of a strategy, written as in the table.

    Example:
        >>> batchstat.compare([5, 90, 12, 100, 7, 8], strategies="static", batch_size=2)
        6 samples, at most 200 tokens per batch: current static, best static
        strategy padding speed-up steps samples/batch shuffling
          static   45.0%    1.00x     3           2.0      full

    Attributes:
        created: time of creation, ISO 8601 in UTC.
        samples: number of samples in the corpus, before overflow.
        corpus: facts about the corpus; None if lengths were given.
        tokenizer: facts about the tokenizer; None if lengths were given.
        basis: the settings that all rows share.
        model: the transformer whose compute is estimated, if any.
        seeds: number of seeds tried for each row.
        strategies: the rows, in the order requested.
        not_shown: names of the strategies that are not shown.
        changes: what would help.
        bounds: lower bounds, and the sorted epoch.
        sweep: padding against `read_ahead`; None if none of them leaves a batch.
        warnings: warnings about the results.
        source: the samples of the corpus, to plan them with other settings.
        subsample: the part of the corpus that all numbers describe; None for the whole corpus.
        device: the calibrated device that trains; None without one.
        run: the recorded run that is the current setup; None where none is.
    """

    created: str
    samples: int
    corpus: CorpusFacts | None
    tokenizer: TokenizerFacts | None
    basis: ResolvedSettings
    model: CostModel | None
    seeds: int
    strategies: tuple[StrategyResult, ...]
    not_shown: tuple[str, ...]
    changes: Changes
    bounds: Bounds
    sweep: Sweep | None
    warnings: tuple[Finding, ...]
    source: Samples
    subsample: SampleFacts | None = None
    device: Device | None = None
    run: RunFacts | None = None

    def shuffling(self, row: StrategyResult) -> str:
        """Return how random the batches of a row are; samples of a recording come as in the run."""
        return "as run" if self.run is not None and row.shuffling == "none" else row.shuffling

    @property
    def calibration(self) -> Calibration | None:
        """The time and memory of batches on the device that trains; None where it is not known."""
        return None if self.device is None else self.device.calibration

    @property
    def is_timed(self) -> bool:
        """Whether compute, and so a speed-up, is time on a calibrated device."""
        return self.device is not None and self.device.is_timed

    @property
    def tokens_that_fit(self) -> int | None:
        """The largest `tokens_per_batch` whose batches all fit the device, whatever the strategy;
        None where its memory has no limit or is not known.
        """
        return None if self.device is None else self.device.tokens_that_fit(self.basis.widest)

    @cached_property
    def regrouped_bounds(self) -> dict[str, StepBound]:
        """By the label of each row of `regrouped`: how near its steps are to the least possible."""
        return {
            row.label: step_bound(row.request, make_shares(self.source, row.request.settings))
            for row in self.strategies
            if isinstance(row.request.strategy, Regrouped) and self.subsample is None
        }

    @property
    def current(self) -> StrategyResult:
        """The setup that the others are compared to: `static`, or the first row."""
        return self.changes.current

    @property
    def best(self) -> StrategyResult:
        """The row to train with: the star's, or the current setup if there is nothing to change."""
        return self.changes.best or self.changes.current

    @property
    def learning_rate(self) -> LearningRateHint | None:
        """How the learning rate may scale from the current setup to the best row, if one fits."""
        if self.changes.best is None:
            return None
        return learning_rate_hint(self.current.counts, self.changes.best.counts)

    def speed_up(self, row: StrategyResult) -> float:
        """Return the estimated compute of the current setup / that of a row."""
        return self.current.counts.compute / row.counts.compute

    def costs(self, row: StrategyResult) -> dict[str, float]:
        """Return what a row computes / what its real tokens need, by each cost: `linear` in the row
        width, `quadratic` in it as attention is, and that of the `model`, if there is one.
        """
        # Each cost: operations per token, and per pair of tokens of a row.
        operations = {"linear": (1, 0), "quadratic": (0, 1)}
        if self.model is not None:
            operations["model"] = (self.model.linear, self.model.quadratic)
        return {name: row.counts.relative_cost(*each) for name, each in operations.items()}

    def __iter__(self) -> Iterator[StrategyResult]:
        """Yield the rows."""
        return iter(self.strategies)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.strategies)

    def __contains__(self, label: object) -> bool:
        """Return whether a strategy has a row."""
        return any(row.label == label for row in self.strategies)

    def _ipython_key_completions_(self) -> list[str]:
        return [row.label for row in self.strategies]

    def __getitem__(self, label: str) -> StrategyResult:
        """Return the row of a strategy, by its label; or by its name alone, where only one row has
        it. Raises KeyError for a strategy that has no row.
        """
        rows = {row.label: row for row in self.strategies}
        named = [row for row in self.strategies if row.name == label]
        if label not in rows and len(named) == 1:
            return named[0]
        if label not in rows:
            raise KeyError(f"{label!r} is not compared: the rows are {', '.join(rows)}")
        return rows[label]

    def __repr__(self) -> str:
        """Return the table that `batchstat compare` prints, in short."""
        return f"{self._heading()}\n{self._table().to_string(index=False)}"

    def _repr_html_(self) -> str:
        table = self._table().to_html(index=False, border=0)
        return f"<p>{escape(self._heading())}</p>{table}"

    def _heading(self) -> str:
        best = "none" if self.changes.best is None else self.changes.best.label
        return (
            f"{self.samples:,} samples, at most {self.basis.tokens_per_batch:,} tokens per batch: "
            f"current {self.current.label}, best {best}"
        )

    def _table(self) -> "pd.DataFrame":
        import pandas as pd

        rows = [
            {
                "strategy": row.label,
                "padding": f"{row.counts.padding_ratio:.1%}",
                "speed-up": f"{self.speed_up(row):.2f}x",
                "steps": f"{row.counts.steps:,}",
                "samples/batch": f"{row.counts.mean_samples_per_batch:,.1f}",
                "shuffling": self.shuffling(row),
            }
            for row in self.strategies
        ]
        return pd.DataFrame(rows)

    def sampler(self, label: str | None = None, *, rank: int = 0) -> BatchSampler:
        """Return the batches of a row, as they were simulated, for `DataLoader(batch_sampler=…)`.

        Args:
            label: the row; by default the best one.
            rank: index of the rank whose batches they are, from 0.

        Raises:
            KeyError: there is no such row.
            OptionError: a row of a subsample, or of samples or batches that only your trainer
                makes; or a rank that it does not have.
            InputError: samples that index no data set.
        """
        row = self.best if label is None else self[label]
        if self.subsample is not None:
            raise OptionError(
                "subsample: the rows are of a part of the corpus", "compare all of it"
            )
        if row.request.strategy.is_given and self.run is not None:
            raise OptionError(
                f"{row.label} has the batches of the epoch that was recorded, and of no other",
                "name another row",
            )
        if isinstance(row.request.strategy, GivenBatches):
            raise OptionError(f"{row.label} are batches of your own", "train with what makes them")
        # The best row may be none of the table: what a trainer makes of samples of its own.
        if all(shown_row is not row for shown_row in self.strategies):
            line = self.changes.star.line if self.changes.star is not None else ""
            raise OptionError(f"{row.label} is made by your trainer itself: {line}")
        return BatchSampler.of_row(self.source, row.request, rank)

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per strategy: its label as `strategy`, then what the screen shows, then
        all other numbers by the keys of compare.json; those of nested objects are joined by `_`.
        """
        from batchstat.documents.base import to_frame
        from batchstat.documents.strategy import strategy_of

        rows = [strategy_of(row, self.model, self.speed_up(row)) for row in self.strategies]
        frame = to_frame(rows)
        frame.insert(0, "strategy", [row["label"] for row in rows])
        frame.insert(1, "shuffling", [self.shuffling(row) for row in self.strategies])
        return frame[[*_SHOWN, *(name for name in frame if name not in _SHOWN)]]
