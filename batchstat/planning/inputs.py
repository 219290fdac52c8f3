"""What a simulation or a sampler is given: a profile or lengths, with labels or without."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError, OptionError
from batchstat.lengths.stats import LengthStats, checked_lengths
from batchstat.planning.classes import Classes
from batchstat.planning.samples import Samples
from batchstat.profiling.profile import Profile


class Given(NamedTuple):
    """A corpus to simulate on.

    Attributes:
        samples: it.
        profile: where they come from, if from one.
    """

    samples: Samples
    profile: Profile | None

    @property
    def stats(self) -> LengthStats:
        """Of its lengths."""
        return self.samples.stats

    @property
    def stated_max(self) -> int | None:
        """The longest sample that the tokenizer's maker states, if any."""
        return self.profile.stated_max if self.profile else None


def as_given(
    lengths: "Profile | str | Path | npt.ArrayLike",
    labels: Iterable[object] | None = None,
    keep: Sequence[str] = (),
) -> Given:
    """The samples of a profile, or of lengths and labels.

    Args:
        lengths: a `Profile`, the `lengths.parquet` that holds one, or (n,) tokens a sample.
        labels: (n,) one a sample, None where it has none; a profile brings its own.
        keep: the labels that count; all, where none is named.

    Raises:
        OptionError: labels beside a profile, or as many as there are no samples.
        InputError: lengths that are none, a file that is no profile, or a label to keep that does
            not occur.
    """
    if isinstance(lengths, str | Path) and Path(lengths).suffix == ".parquet":
        from batchstat.profiling.parquet import read_file

        lengths = read_file(lengths)
    if isinstance(lengths, Profile):
        if labels is not None:
            raise OptionError("labels are given beside a profile, which brings its own: leave out")
        classes = _classes_of(lengths, keep)
        samples = Samples(lengths.lengths, lengths.records, classes, lengths.stats)
        return Given(samples, lengths)
    whole = checked_lengths(cast("npt.ArrayLike", lengths))
    classes = None
    if labels is not None:
        known = list(labels)
        if len(known) != len(whole):
            raise OptionError(f"{len(known):,} labels for {len(whole):,} lengths: give one each")
        classes = Classes.encode(known, keep)
    return Given(Samples(whole, np.arange(len(whole)), classes), None)


def _classes_of(profile: Profile, keep: Sequence[str]) -> Classes | None:
    labels = profile.labels
    if labels is None or (not keep and not labels.names):
        return None
    if not labels.names:
        raise InputError(f"no sample has the label {keep[0]!r}: none has any")
    return Classes.of(labels.codes, labels.names, labels.offsets, keep)
