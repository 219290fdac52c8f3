"""What is trained today, and what would help: other values for the trainer's own keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from batchstat.errors import BatchstatError, OptionError
from batchstat.findings import Finding
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.candidates import can_regroup
from batchstat.simulation.compare.named_rows import ParsedRow, Row, TrainerChange
from batchstat.simulation.meters.token_weights import EXACT

if TYPE_CHECKING:
    from batchstat.trainers.base.samples import TrainedSamples
    from batchstat.trainers.base.setup import Framework, TrainingSetup
    from batchstat.trainers.preflight.observed import Observed

ALL_TRAINED = (
    "every token is taken as trained: where only some carry loss, pass token ids with labels, "
    "--trained-column"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trainer:
    """A trainer's own configuration, and the corpus that it trains on."""

    setup: "TrainingSetup"
    profile: Profile
    settings: Mapping[str, Any]  # fields of `batchstat.Settings` that override the configuration
    observed: "Observed | None" = None  # the object, the loader or the recording that it is of

    @cached_property
    def changes(self) -> tuple[TrainerChange, ...]:
        """What may save compute: other keys; of an object or a recording, also less padding."""
        if self.observed is None:
            return self._changes_of_keys()
        _, settings = self.samples_and_settings()
        return tuple(changes_of_object(self.observed, settings, self._changes_of_keys()))

    def samples_and_settings(
        self, unmarked_warning: str = ALL_TRAINED
    ) -> "tuple[TrainedSamples, Settings]":
        """Return the samples of a corpus that a trainer batches, and the settings that it batches
        them with. If a corpus does not say which tokens carry loss, all do but the first of each
        sample, which nothing predicts. Raises OptionError: settings that contradict each other;
        InputError: the trainer keeps no sample.
        """
        profile, batching = self.profile, self.setup.batching
        # For a trainer that truncates nothing, the longest sample is the limit.
        longest = profile.stats.max
        of_corpus = {"max_length": longest} if batching.max_length_of_corpus else {}
        merged = Settings(**{**batching.settings, **of_corpus, **self.settings})
        limit = merged.resolve(longest=longest, stated_max=profile.stated_max).max_length
        samples = batching.prepare(profile, limit)  # drops and truncates as the trainer does
        # Texts are trained whole, and chats say what is trained; token ids and lengths may hide it.
        is_unmarked = profile.corpus.options.content in ("tokens", "length")
        if samples.profile.trained is None and is_unmarked and unmarked_warning:
            unmarked = Finding("trained/unmarked", unmarked_warning)
            samples = replace(samples, warnings=(*samples.warnings, unmarked))
        # The profile, too, says which tokens were lost.
        return replace(samples, profile=replace(samples.profile, lost=samples.lost)), merged

    def _changes_of_keys(self) -> tuple[TrainerChange, ...]:
        if self.framework is None:  # a loader
            return ()
        changes = map(self.change_of_keys, self.framework.alternatives(self.setup.config))
        return tuple(change for change in changes if change is not None)

    @property
    def framework(self) -> "Framework | None":
        """The framework that it is of; None for a loader."""
        from batchstat.trainers.registry import CONFIGURATIONS

        return CONFIGURATIONS.get(self.setup.framework)

    def change_of_keys(self, keys: Mapping[str, Any]) -> TrainerChange | None:
        """Return the change that other values for keys make; None if they contradict the rest."""
        from batchstat.trainers.base.files import setup_of

        setup = self.setup
        assert self.framework is not None
        try:
            # `own` has all keys of the user's configuration, with their values.
            changed_setup = setup_of({**setup.own, **keys}, setup.framework, setup.path)
            samples, settings = replace(self, setup=changed_setup).samples_and_settings()
        except BatchstatError:
            return None
        return TrainerChange(
            keys=keys,
            line=self.framework.written(keys, setup.path),  # what the user writes for these keys
            strategy=changed_setup.batching.strategy,
            settings=settings,
            profile=samples.profile,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CurrentTraining:
    """What is trained today on a corpus."""

    lengths: Profile | npt.ArrayLike
    settings: Settings
    row: ParsedRow | None = None  # the current setup: a strategy, or a name and batches
    trainer: Trainer | None = None  # what its keys can change; None for a strategy or batches
    strategies: Sequence[Row] | None = None  # what it can be compared with; None for any strategy
    takes_sampler: bool = True  # whether a sampler of batchstat's can make its batches
    warnings: tuple[Finding, ...] = ()  # what a report has to say of it

    @property
    def profile(self) -> Profile:
        """The samples, where they are a profile. Raises OptionError otherwise."""
        if not isinstance(self.lengths, Profile):
            raise OptionError("lengths are not enough", "pass a profile of the corpus")
        return self.lengths

    @property
    def strategy(self) -> StrategySpec | None:
        """The strategy; None where none is named. Raises OptionError for batches."""
        if isinstance(self.row, tuple):
            raise OptionError(f"{self.row[0]} has batches and no strategy", "name one")
        return self.row


_OF_UNREAD: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "axolotl": {
        "axolotl:sample_packing=true,batch_size={}": {
            "sample_packing": True,
            "attn_implementation": "flash_attention_2",
        },
        "hf-group-by-length:batch_size={}": {"group_by_length": True},
    },
    "llama-factory": {
        "llama-factory:packing=masked,batch_size={},read_ahead=1000,preprocessing_num_workers=1": {
            "neat_packing": True
        },
        "hf-group-by-length:batch_size={}": {"train_sampling_strategy": "group_by_length"},
    },
}
"""By the strategy of a trainer whose files are not read: what may save compute, each a strategy
with a place for its batch size, and the trainer's keys that make it."""


def changes_of_name(
    current: RowRequest, settings: Settings, basis: ResolvedSettings
) -> Iterator[TrainerChange]:
    """Yield changes of a trainer's keys where its name, such as `hf-trainer`, is the strategy."""
    strategy = current.strategy
    if strategy.packs_rows or strategy.batch_capacity is None:
        return
    # Imported here, since these load the readers of corpora, which most commands do not need.
    from batchstat.trainers.base.files import setup_of
    from batchstat.trainers.base.setup import as_yaml
    from batchstat.trainers.registry import CONFIGURATIONS

    # Padding and dropping stay as in the current setup.
    kept = replace(
        settings, pad_to_multiple_of=strategy.pad_to_multiple_of, drop_last=strategy.drop_last
    )
    for text, changed_keys in _OF_UNREAD.get(current.name, {}).items():
        yield TrainerChange(
            keys=changed_keys,
            line=as_yaml(changed_keys),
            strategy=StrategySpec.parse(text.format(strategy.batch_capacity)),
            settings=kept,
        )
    names = [name for name, each in CONFIGURATIONS.items() if current.name in each.stands_for]
    if not names:  # the strategy stands for no trainer
        return
    name, framework = names[0], CONFIGURATIONS[names[0]]
    # The configuration that would train as the current setup does: its keys with their values.
    values = {
        "batch_size": strategy.batch_capacity,
        "gradient_accumulation_steps": basis.gradient_accumulation_steps,
        "max_length": basis.max_length,
    }
    keys = {framework.own_keys.get(field, field): value for field, value in values.items()}
    keys = {key: value for key, value in keys.items() if key in framework.keys}
    try:
        # There is no file: messages have the title in place of its path.
        setup = setup_of(keys, name, Path(framework.title))
    except OptionError:  # such as a length that it does not take
        return
    for changed_keys in framework.alternatives(setup.config):
        try:
            batching = setup_of({**keys, **changed_keys}, name, setup.path).batching
        except BatchstatError:
            continue
        yield TrainerChange(
            keys=changed_keys,
            line=framework.written(changed_keys),
            strategy=batching.strategy,
            settings=kept,
        )


def changes_of_object(
    observed: "Observed", settings: Settings, changes: Sequence[TrainerChange]
) -> Iterator[TrainerChange]:
    """Yield what would help a trainer's object or a loader: samples without the padding that they
    have before they are batched, alone and with each of `changes`; else `changes` alone.
    """
    trainer = observed.trainer
    if observed.no_advice or (trainer is not None and trainer.packs):
        return
    # Arguments change nothing where the user's own code decides which samples share a batch, and
    # know no length of a sample that is several rows.
    if trainer is None or not trainer.samples_by_arguments or observed.profile.rows is not None:
        changes = ()
    if not (observed.repair or observed.edit):  # no padding before batching, or no known remedy
        yield from changes
        return
    samples = observed.without_padding
    if observed.unpadded is not None:  # None where batches have no size that a strategy could have
        yield TrainerChange(
            keys={},
            line=observed.repair,
            strategy=observed.unpadded,
            settings=settings,
            profile=samples,
        )
        applied = "" if observed.batches is None else observed.batches.apply
        if applied and settings.loss in EXACT and can_regroup(observed.unpadded, settings):
            regrouped = StrategySpec.of("regrouped").of_setup(observed.unpadded)
            yield TrainerChange(
                keys={}, line=applied, strategy=regrouped, settings=settings, profile=samples
            )
    # Keys group or pack rows by their own lengths: padding must be taken out of these.
    for change in changes:
        line = f"{observed.edit or observed.repair}, and {change.line}"
        yield replace(change, line=line, profile=change.profile if samples is None else samples)
