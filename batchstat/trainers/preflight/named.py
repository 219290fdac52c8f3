"""What is trained today: a strategy, a configuration or a recording, as `current` names it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from batchstat.errors import OptionError
from batchstat.findings import Finding
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import Row, parse_row
from batchstat.storage.addresses import local_path
from batchstat.trainers.base.named import names_configuration, names_recording
from batchstat.trainers.preflight.changes import CurrentTraining, Trainer

if TYPE_CHECKING:
    from batchstat.trainers.preflight.current import CurrentSetup


def trained_today(
    current: Row | Path | None,
    lengths: Profile | npt.ArrayLike | None,
    settings: Mapping[str, Any],
    trainer: Trainer | None = None,
    ignore_keys: Sequence[str] = (),
) -> CurrentTraining:
    """Return what is trained today: samples, settings, and a strategy or batches.

    Args:
        current: the current setup: a strategy, or a name and batches; a trainer's configuration, or
            the folder of a recording.
        lengths: the corpus: a profile, or (n,) tokens per sample; None for the corpus that a
            configuration names, and for a recording, which has its own samples.
        settings: fields of `batchstat.Settings`, which override those of a configuration.
        trainer: the trainer, if the caller has read its configuration already: then lengths and
            settings are those that it trains with, and `current` is its strategy or its batches.
        ignore_keys: further keys of a configuration that decide nothing.

    Raises:
        OptionError: no samples; lengths beside a recording, or without their corpus beside a
            configuration; an invalid configuration or setting.
        InputError: a configuration, corpus or recording that cannot be read.
    """
    if isinstance(current, Path):
        current = str(current)
    # Text may name a configuration or a recording. Other text, and everything else, is a strategy
    # or batches, and is handled below.
    if trainer is None and isinstance(current, str):
        if names_configuration(current):
            return _of_configuration(current, lengths, settings, ignore_keys)
        if names_recording(current):
            if lengths is not None:
                raise OptionError(
                    f"{current}: a recording brings its own samples", "leave lengths out"
                )
            # Imported here: it loads what most comparisons do not need.
            from batchstat.trainers.preflight.current import observe_folder, training_of_recording

            return training_of_recording(observe_folder(local_path(current)), settings)
    if lengths is None:
        raise OptionError(
            "no samples",
            "pass a profile or lengths, or a trainer's configuration or a recording as current",
        )
    row = current if current is None else parse_row("current", current)
    return CurrentTraining(lengths=lengths, settings=Settings(**settings), row=row, trainer=trainer)


def setup_warnings(current: "CurrentSetup") -> Iterator[Finding]:
    """Yield the warnings of a report whose current setup is a trainer's configuration."""
    setup, samples = current.trainer.setup, len(current.trainer.profile)
    config, left_out = setup.path.as_posix(), samples - len(current.samples.profile)
    if setup.assumption:
        yield Finding("config/unknown-keys", f"{config}: {setup.assumption}")
    yield from current.samples.warnings
    if left_out:
        yield Finding(
            "lost/left-out",
            f"{config} leaves out {left_out:,} of {samples:,} samples: batchstat preflight says "
            "why",
        )


def _of_configuration(
    current: str | Path, lengths: object, settings: Mapping[str, Any], ignore_keys: Sequence[str]
) -> CurrentTraining:
    """Return what a trainer's configuration trains on; arguments as in `trained_today`."""
    # Imported here, since it loads the readers of corpora, which most comparisons do not need.
    from batchstat.profiling.build import profile
    from batchstat.trainers.base.files import read_setup
    from batchstat.trainers.preflight.corpus import profile_keywords
    from batchstat.trainers.preflight.current import training_of

    # Lengths alone do not say what a trainer drops, or which records it holds out.
    if not (lengths is None or isinstance(lengths, Profile)):
        raise OptionError(f"{current}: which samples it keeps is unknown", "pass a profile")
    setup = read_setup(current, ignore_keys=ignore_keys)
    if lengths is None:
        lengths = profile(**profile_keywords(setup))
    today = training_of(Trainer(setup=setup, profile=lengths, settings=settings))
    return replace(today, warnings=tuple(setup_warnings(today)))
