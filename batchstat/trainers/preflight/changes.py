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

_BY_NAME = {
    "static": "transformers",  # nothing is known of its trainer: that of most
    "hf-trainer": "transformers",
    "trl": "trl",
    "axolotl": "axolotl",
    "llama-factory": "llama-factory",
}
"""Frameworks whose configuration a strategy stands for."""

_SIZES = {"axolotl": "micro_batch_size"}
_NEEDED: dict[str, dict[str, Any]] = {"llama-factory": {"do_train": True}}
_LENGTHS = {"trl": "max_length", "axolotl": "sequence_len", "llama-factory": "cutoff_len"}


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
        return changes_of_object(self.observed, wanted, self._of_keys())

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
        keys = {
            self.setup.batching.own_keys.get(name, name): value for name, value in changes.items()
        }
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
    name, size = _BY_NAME.get(current.name), current.strategy.batch_capacity
    if name is None or current.strategy.packs_rows or size is None:
        return
    # What trainers do to a corpus loads its readers, which most commands do not need.
    from batchstat.trainers.base.files import setup_of
    from batchstat.trainers.registry import CONFIGURATIONS

    framework = CONFIGURATIONS[name]
    own: dict[str, Any] = {
        _SIZES.get(name, "per_device_train_batch_size"): size,
        "gradient_accumulation_steps": basis.gradient_accumulation_steps,
        **_NEEDED.get(name, {}),
    }
    if name in _LENGTHS:
        own[_LENGTHS[name]] = basis.max_length
    try:
        setup = setup_of(own, name, Path(framework.title))
    except OptionError:  # such as a length that it does not take
        return
    for keys in framework.alternatives(setup.config):
        try:
            changed = setup_of({**own, **keys}, name, setup.path)
        except BatchstatError:
            continue
        multiple = changed.batching.settings.get(
            "pad_to_multiple_of", current.strategy.pad_to_multiple_of
        )
        drops = current.strategy.drop_last
        others = {**asdict(settings), "pad_to_multiple_of": multiple, "drop_last": drops}
        yield TrainerChange(
            keys=keys,
            line=framework.written(keys),
            strategy=changed.batching.strategy,
            settings=Settings(**others),
        )
