"""The current setup: what is trained on a corpus, by a strategy, a trainer's own configuration, its
object, a loader or a recording.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchstat.errors import OptionError, short
from batchstat.planning.settings import Settings
from batchstat.recording.recording import read_recording
from batchstat.simulation.compare.named_rows import ParsedRow
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.preflight.changes import Trained, Trainer
from batchstat.trainers.preflight.observed import WITHOUT_LABELS, Observed
from batchstat.trainers.preflight.observed_runs import observe_recording
from batchstat.trainers.preflight.samples import ALL_TRAINED, as_trained


@dataclass(frozen=True, kw_only=True, eq=False)
class CurrentSetup(Trained):
    """What a trainer's configuration, its object, a loader or a recording trains on.

    Attributes:
        samples: what it keeps of the corpus.
        row: its strategy, or a name and its batches.
        trainer: what its keys can change.
    """

    samples: TrainedSamples
    row: ParsedRow
    trainer: Trainer


def current_of(trainer: Trainer) -> CurrentSetup:
    """Return what a trainer trains on.

    Raises:
        OptionError: settings that contradict each other.
        InputError: it keeps no sample.
    """
    observed = trainer.observed
    unmarked = ALL_TRAINED if observed is None else WITHOUT_LABELS
    samples, wanted = as_trained(trainer.setup, trainer.profile, trainer.settings, unmarked)
    row: ParsedRow = trainer.setup.batching.strategy
    if observed is not None and observed.batches is not None:
        row = (observed.kind, observed.batches)
    return CurrentSetup(
        lengths=samples.profile,
        samples=samples,
        settings=wanted,
        row=row,
        trainer=trainer,
        # Which samples meet decides two widths then, of which a strategy plans one.
        strategies=() if observed is not None and observed.has_decoder else None,
    )


_DECIDED = ("world_size", "gradient_accumulation_steps", "max_length", "overflow")
"""Settings that are those of a recording."""


def of_recording(observed: Observed, settings: Mapping[str, Any]) -> CurrentSetup:
    """Return what a recording trains on; `settings` are of the rows that it is compared with.

    Raises:
        OptionError: a setting that the recording decides, or settings that contradict each other.
    """
    setup, profile = observed.setup, observed.profile
    decided = vars(Settings(**{**setup.batching.settings, **observed.settings}))
    for key in _DECIDED:
        if key in settings and settings[key] != decided[key]:
            raise OptionError(
                f"{key}={short(settings[key])}: {profile.corpus.sources[0].path} was recorded with "
                f"{short(decided[key])}: leave it out, or record a run that has it"
            )
    wanted = {**observed.settings, **settings}
    return current_of(Trainer(setup=setup, profile=profile, settings=wanted, observed=observed))


def recorded(folder: Path) -> Observed:
    """Return what was recorded in a folder, under whose name its samples are shown.

    Raises:
        InputError: a folder without a recording, or a recording that cannot be described.
    """
    observed = observe_recording(read_recording(folder), {})
    corpus = observed.profile.corpus
    source = replace(corpus.sources[0], path=folder.as_posix())
    return replace(
        observed, profile=replace(observed.profile, corpus=replace(corpus, sources=(source,)))
    )
