"""What is trained today, and what would help: other values for the keys or arguments of the user's
own trainer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from batchstat.documents.comparison import ReportWarning
from batchstat.errors import BatchstatError, OptionError
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import ParsedRow, Row
from batchstat.simulation.compare.trainer_change import TrainerChange
from batchstat.trainers.preflight.observed import Observed

if TYPE_CHECKING:
    from batchstat.trainers.base.setup import Framework, TrainingSetup
    from batchstat.trainers.preflight.observed import Observed


@dataclass(frozen=True, kw_only=True, eq=False)
class Trainer:
    """A trainer's own configuration, and the corpus that it trains on.

    Attributes:
        setup: what the configuration means as it is.
        profile: the corpus, before the trainer leaves out any of it.
        settings: fields of `batchstat.Settings` that override the configuration.
        observed: the object, the loader or the recording that it is of; None for a file.
    """

    setup: "TrainingSetup"
    profile: Profile
    settings: Mapping[str, Any]
    observed: "Observed | None" = None

    @cached_property
    def changes(self) -> tuple[TrainerChange, ...]:
        """What may save compute: other values for its keys; of an object or a recording, also what
        was done to its samples before they were batched.
        """
        if self.observed is None:
            return self._of_keys()
        from batchstat.trainers.preflight.samples import as_trained

        _, wanted = as_trained(self.setup, self.profile, self.settings)
        return tuple(changes_of_object(self.observed, wanted, self._of_keys()))

    def _of_keys(self) -> tuple[TrainerChange, ...]:
        if self.framework is None:  # a loader
            return ()
        changes = map(self.with_keys, self.framework.alternatives(self.setup.config))
        return tuple(change for change in changes if change is not None)

    @property
    def framework(self) -> "Framework | None":
        """The framework that it is of; None for a loader."""
        from batchstat.trainers.registry import CONFIGURATIONS

        return CONFIGURATIONS.get(self.setup.framework)

    def with_keys(self, keys: Mapping[str, Any]) -> TrainerChange | None:
        """Return what other values for some keys make; None where they contradict others, or do not
        go with this corpus.
        """
        from batchstat.trainers.base.files import setup_of
        from batchstat.trainers.preflight.samples import as_trained

        setup = self.setup
        assert self.framework is not None
        try:
            changed = setup_of({**setup.own, **keys}, setup.framework, setup.path)
            samples, wanted = as_trained(changed, self.profile, self.settings)
        except BatchstatError:
            return None
        return TrainerChange(
            keys=keys,
            line=self.framework.written(keys, setup.path),
            strategy=changed.batching.strategy,
            settings=wanted,
            profile=samples.profile,
        )

    def with_settings(self, changes: Mapping[str, Any]) -> TrainerChange | None:
        """Return what other values for some settings make, by the keys that decide them. None where
        a setting has no key, the user overrides it, or `with_keys` returns None.
        """
        assert self.framework is not None
        known = self.framework.keys
        keys = {self.setup.own_keys.get(name, name): value for name, value in changes.items()}
        if not known.keys() >= keys.keys() or self.settings.keys() & changes.keys():
            return None
        return self.with_keys(keys)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What is trained today on a corpus.

    Attributes:
        lengths: the samples that are batched: a profile, or (n,) tokens per sample.
        settings: the settings for them, as given.
        row: the current setup: a strategy, or a name and batches; None where none is named.
        trainer: what its keys can change; None for a strategy or batches.
        strategies: what it can be compared with; None for any strategy.
        warnings: what a report has to say of it.
    """

    lengths: Profile | npt.ArrayLike
    settings: Settings
    row: ParsedRow | None = None
    trainer: Trainer | None = None
    strategies: Sequence[Row] | None = None
    warnings: tuple[ReportWarning, ...] = ()

    def warned(self, messages: Iterable[str]) -> "Trained":
        """Return the same with these messages as warnings."""
        warnings = tuple(ReportWarning("configuration", each) for each in messages)
        return replace(self, warnings=warnings)

    @property
    def profile(self) -> Profile:
        """The samples, where they are a profile. Raises OptionError otherwise."""
        if not isinstance(self.lengths, Profile):
            raise OptionError("lengths are not enough: pass a profile of the corpus")
        return self.lengths

    @property
    def strategy(self) -> StrategySpec | None:
        """The strategy; None where none is named. Raises OptionError for batches."""
        if isinstance(self.row, tuple):
            raise OptionError(f"{self.row[0]} has batches and no strategy: name one")
        return self.row


def changes_of_name(
    current: RowRequest, settings: Settings, basis: ResolvedSettings
) -> Iterator[TrainerChange]:
    """Yield changes of a trainer's keys, where the current setup is a strategy that stands for the
    trainer, such as `hf-trainer`. There are none if it packs already, or has no fixed batch size.

    Args:
        current: the current setup.
        settings: the settings, as given.
        basis: the settings that are decided.
    """
    size = current.strategy.batch_capacity
    if current.strategy.packs_rows or size is None:
        return
    # What trainers do to a corpus loads its readers, which most commands do not need.
    from batchstat.trainers.base.files import setup_of
    from batchstat.trainers.registry import CONFIGURATIONS

    named = (name for name, each in CONFIGURATIONS.items() if current.name in each.stands_for)
    if (name := next(named, None)) is None:
        return
    framework = CONFIGURATIONS[name]
    values = {
        "batch_size": size,
        "gradient_accumulation_steps": basis.gradient_accumulation_steps,
        "max_length": basis.max_length,
    }
    keys = {framework.own_keys.get(field, field): value for field, value in values.items()}
    own = {key: value for key, value in keys.items() if key in framework.keys}
    own |= framework.needed
    try:
        setup = setup_of(own, name, Path(framework.title))  # no file: the title, for messages
    except OptionError:  # such as a length that it does not take
        return
    for changes in framework.alternatives(setup.config):
        try:
            changed = setup_of({**own, **changes}, name, setup.path)
        except BatchstatError:
            continue
        # Padding and dropping stay as in the current setup, unless the changed keys decide padding.
        multiple = changed.batching.settings.get(
            "pad_to_multiple_of", current.strategy.pad_to_multiple_of
        )
        drops = current.strategy.drop_last
        yield TrainerChange(
            keys=changes,
            line=framework.written(changes),
            strategy=changed.batching.strategy,
            settings=replace(settings, pad_to_multiple_of=multiple, drop_last=drops),
        )


def changes_of_object(
    observed: Observed, settings: Settings, changes: Sequence[TrainerChange]
) -> Iterator[TrainerChange]:
    """Yield what would help a trainer's object or a loader: no padding before rows are batched, by
    itself and with other arguments of the trainer, where these decide about batches. Yield nothing
    where it packs already, or has an encoder and a decoder.

    Args:
        observed: the object.
        settings: its settings.
        changes: other arguments, for samples that are not padded.
    """
    trainer = observed.trainer
    if observed.has_decoder or (trainer is not None and trainer.packs):
        return
    if trainer is None or not trainer.samples_by_arguments:
        changes = ()
    if not observed.repair:  # nothing is padded before, or how to change that is not known
        yield from changes
        return
    samples = observed.without_padding
    assert observed.unpadded is not None  # what repairs padding leaves a strategy
    yield TrainerChange(
        keys={},
        line=observed.repair,
        strategy=observed.unpadded,
        settings=settings,
        profile=samples,
    )
    # With other arguments, the padding is taken out as well.
    for each in changes:
        line = f"{observed.repair}, and {each.line}"
        yield replace(each, line=line, profile=each.profile if samples is None else samples)
