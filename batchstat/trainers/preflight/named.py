"""What is trained today: a strategy, a configuration or a recording, as `current` names it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from batchstat.errors import OptionError
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import Row, parse_row
from batchstat.storage.addresses import local_path
from batchstat.trainers.base.key_files import names_configuration, names_recording
from batchstat.trainers.preflight.changes import CurrentTraining

if TYPE_CHECKING:
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.observed import Observed


def read_current(
    current: "Row | Path | TrainingSetup | Observed",
    framework: str | None = None,
    ignore_keys: Sequence[str] = (),
) -> "Row | TrainingSetup | Observed":
    """Read a current setup where it is a file or a folder: a trainer's configuration, or a
    recording. Return others as they are. Raises OptionError: an invalid configuration; InputError:
    a configuration or a recording that cannot be read.
    """
    if isinstance(current, Path):
        current = str(current)
    if not isinstance(current, str):
        return current
    # Imported here: they load what most comparisons do not need.
    if names_configuration(current):
        from batchstat.trainers.base.files import read_setup

        return read_setup(current, framework, ignore_keys)
    if names_recording(current):
        from batchstat.trainers.preflight.current import observe_folder

        return observe_folder(local_path(current))
    return current


def trained_today(
    current: "Row | Path | TrainingSetup | Observed | CurrentTraining | None",
    lengths: Profile | npt.ArrayLike | None,
    settings: Mapping[str, Any],
    ignore_keys: Sequence[str] = (),
) -> CurrentTraining:
    """Return what is trained today: samples, settings, and a strategy or batches. A trainer may
    leave out samples, truncate others, and decide settings. Raises OptionError: no samples, lengths
    beside a recording, or without their corpus beside a configuration, an invalid configuration or
    setting; InputError: what cannot be read, or no sample is kept.
    """
    if isinstance(current, CurrentTraining):
        return current
    setup = None if current is None else read_current(current, ignore_keys=ignore_keys)
    if not isinstance(setup, str | StrategySpec | tuple | None):
        # Imported here, for they load the readers of corpora, which most comparisons do not need.
        from batchstat.trainers.base.setup import TrainingSetup
        from batchstat.trainers.preflight.current import training_of_observed, training_of_setup
        from batchstat.trainers.preflight.observed import Observed

        if isinstance(setup, TrainingSetup):
            return training_of_setup(setup, lengths, settings)
        if isinstance(setup, Observed):
            if lengths is not None and lengths is not setup.profile:
                raise OptionError(
                    f"{setup.profile.corpus.sources[0].path}: a recording brings its own samples",
                    "leave lengths out",
                )
            return training_of_observed(setup, settings)
    if lengths is None:
        raise OptionError(
            "no samples",
            "pass a profile or lengths, or a trainer's configuration or a recording as current",
        )
    row = None if setup is None else parse_row("current", setup)
    return CurrentTraining(lengths=lengths, settings=Settings(**settings), row=row)
