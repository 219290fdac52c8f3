"""Changes of the user's own trainer: other values for keys of its configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.errors import BatchstatError, OptionError
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import RowRequest
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.trainer_change import TrainerChange

if TYPE_CHECKING:
    from batchstat.trainers.base.setup import TrainingSetup
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
        from batchstat.trainers.preflight.observed_changes import changes_of_object
        from batchstat.trainers.preflight.samples import as_trained

        _, wanted = as_trained(self.setup, self.profile, self.settings)
        return tuple(changes_of_object(self.observed, wanted, self._of_keys()))

    def _of_keys(self) -> tuple[TrainerChange, ...]:
        from batchstat.trainers.registry import CONFIGURATIONS

        if self.setup.framework not in CONFIGURATIONS:  # a loader
            return ()
        wanted = CONFIGURATIONS[self.setup.framework].alternatives(self.setup.config)
        found = (self.with_keys(keys) for keys in wanted)
        return tuple(each for each in found if each is not None)

    def with_keys(self, keys: Mapping[str, Any]) -> TrainerChange | None:
        """Return what other values for some keys make; None where they contradict others, or do not
        go with this corpus.
        """
        from batchstat.trainers.base.files import setup_of
        from batchstat.trainers.preflight.samples import as_trained
        from batchstat.trainers.registry import CONFIGURATIONS

        setup, framework = self.setup, CONFIGURATIONS[self.setup.framework]
        try:
            changed = setup_of({**setup.own, **keys}, setup.framework, setup.path)
            samples, wanted = as_trained(changed, self.profile, self.settings)
        except BatchstatError:
            return None
        return TrainerChange(
            keys=keys,
            line=framework.written(keys, setup.path),
            strategy=changed.batching.strategy,
            settings=wanted,
            profile=samples.profile,
        )

    def with_settings(self, changes: Mapping[str, Any]) -> TrainerChange | None:
        """Return the same of settings, by the keys that decide these; None where one of them has no
        key, or is overridden.
        """
        from batchstat.trainers.registry import CONFIGURATIONS

        known = CONFIGURATIONS[self.setup.framework].keys
        keys = {self.setup.own_keys.get(name, name): value for name, value in changes.items()}
        if not known.keys() >= keys.keys() or self.settings.keys() & changes.keys():
            return None
        return self.with_keys(keys)


def changes_of_name(
    current: RowRequest, settings: Settings, basis: ResolvedSettings
) -> Iterator[TrainerChange]:
    """Yield the changes of a trainer that is named as a strategy; of one that packs, none.

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
    keys = {framework.own_keys.get(name, name): value for name, value in values.items()}
    own = {key: value for key, value in keys.items() if key in framework.keys}
    own |= framework.needed
    try:
        setup = setup_of(own, name, Path(framework.title))
    except OptionError:  # such as a length that it does not take
        return
    for changes in framework.alternatives(setup.config):
        try:
            changed = setup_of({**own, **changes}, name, setup.path)
        except BatchstatError:
            continue
        multiple = changed.batching.settings.get(
            "pad_to_multiple_of", current.strategy.pad_to_multiple_of
        )
        drops = current.strategy.drop_last
        others = {**asdict(settings), "pad_to_multiple_of": multiple, "drop_last": drops}
        yield TrainerChange(
            keys=changes,
            line=framework.written(changes),
            strategy=changed.batching.strategy,
            settings=Settings(**others),
        )
