"""Inputs of a simulation or sampler: a profile or lengths, with or without labels."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.lengths.stats import LengthStats, validate_lengths
from batchstat.parameters import listed
from batchstat.planning.classes import Classes
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import NamedRow, RowRequest
from batchstat.profiling.profile import CorpusFacts, Profile, TokenizerFacts


class PlanInputs(NamedTuple):
    """A corpus to simulate on."""

    samples: Samples
    profile: Profile | None  # the profile they come from, if any

    @property
    def stats(self) -> LengthStats:
        """Statistics of the lengths."""
        return self.samples.stats

    @property
    def corpus(self) -> CorpusFacts | None:
        """Facts about the corpus; None if lengths were given."""
        return self.profile.corpus if self.profile else None

    @property
    def tokenizer(self) -> TokenizerFacts | None:
        """Facts about the tokenizer; None if lengths were given."""
        return self.profile.tokenizer if self.profile else None

    def resolve(self, settings: Settings, current: RowRequest | None = None) -> ResolvedSettings:
        """Return settings with all defaults decided for this corpus: see `Settings.resolve`. Raises
        InputError: the settings need trained tokens, and these are unknown.
        """
        stated_max = self.profile.stated_max if self.profile else None
        if settings.balance_by == "trained" and self.samples.trained is None:
            raise InputError(
                "balance_by=trained needs to know which tokens are trained",
                "count the corpus with --prompt-column and --completion-column, "
                "--assistant-only-loss or --trained-column",
            )
        batch_size = loss = None
        multiple = 1
        if current is not None:
            batch_size = current.strategy.batch_capacity if current.sets("batch_size") else None
            # The setup's multiple rounds only a budget that follows from the setup's batch size.
            multiple = 1 if batch_size is None else current.strategy.pad_to_multiple_of
            # The loss is only for the weights of trained tokens.
            loss = None if self.samples.trained is None else current.strategy.loss
        rows = 1 if self.samples.rows is None else max(self.samples.rows.forwards)
        return settings.resolve(self.stats.max, stated_max, batch_size, loss, multiple, rows)

    def request(self, current: NamedRow, settings: Settings) -> RowRequest:
        """Return the current setup with its settings, some of which it decides itself. Raises
        OptionError: a parameter of the strategy that no settings allow.
        """
        # The first request says which batch size and loss the setup has, where nobody gave these.
        preliminary = current.request(self.resolve(settings))
        return current.request(self.resolve(settings, current=preliminary))


def resolve_inputs(
    lengths: "Profile | str | Path | npt.ArrayLike",
    labels: Iterable[object] | None = None,
    keep: Sequence[str] = (),
) -> PlanInputs:
    """Return the samples of a `Profile`, of its `lengths.parquet`, or of (n,) lengths and labels,
    None for no label; `keep` has the labels that count, all if none are given, and where nothing
    has a label. Raises OptionError: labels together with a profile, or not one label per sample;
    InputError: invalid lengths, a file that is not a profile, or a label to keep that is nowhere.
    """
    # Other text is not a path; validate_lengths below refuses it.
    if isinstance(lengths, str | Path) and Path(lengths).suffix == ".parquet":
        from batchstat.profiling.parquet import read_file

        lengths = read_file(lengths)
    if isinstance(lengths, Profile):
        if labels is not None:
            raise OptionError("labels cannot be combined with a Profile, which already has labels")
        # `left_out` counts chats that the template does not render completely. Roles that it does
        # not know (from/value with human and gpt) render nothing, silently.
        if lengths.corpus.left_out and lengths.stats.sum == 0:
            raise InputError(
                f"the chat template renders none of the messages of {len(lengths):,} chats: it may "
                "know their roles by other names",
                "pass another one with --chat-template FILE",
            )
        classes, read = None, lengths.labels
        if read is not None and read.names:
            classes = Classes.of(read.codes, read.names, read.offsets, keep)
        elif read is not None and keep:  # a label column was read, but no sample has a value in it
            raise InputError(f"no sample has the label {keep[0]!r}: no sample has any label")
        samples = Samples(
            lengths=lengths.lengths,
            records=lengths.records,
            classes=classes,
            known=lengths.stats,
            trained=lengths.trained,
            lost=lengths.lost,
            is_indexed=lengths.is_indexed,
            rows=lengths.rows,
        )
        return PlanInputs(samples, lengths)
    checked_lengths = validate_lengths(cast("npt.ArrayLike", lengths))
    classes = None
    if labels is not None:
        label_list = listed("labels", labels)
        if len(label_list) != len(checked_lengths):
            raise OptionError(
                f"{len(label_list):,} labels for {len(checked_lengths):,} lengths", "pass one each"
            )
        classes = Classes.encode(label_list, keep)
    records = np.arange(len(checked_lengths))
    return PlanInputs(Samples(checked_lengths, records, classes, is_indexed=True), None)
