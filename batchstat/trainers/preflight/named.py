"""What is trained today, by the name of the current setup."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from batchstat.errors import OptionError
from batchstat.planning.settings import Settings
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import Row, parse_row
from batchstat.storage.addresses import local_path
from batchstat.trainers.base.named import names_configuration, names_recording
from batchstat.trainers.preflight.changes import Trained, Trainer

if TYPE_CHECKING:
    from batchstat.trainers.preflight.current import CurrentSetup


def trained_today(
    current: Row | Path | None,
    lengths: Profile | npt.ArrayLike | None,
    settings: Mapping[str, Any],
    trainer: Trainer | None = None,
    ignore_keys: Sequence[str] = (),
) -> Trained:
    """Return what is trained on a corpus.

    Args:
        current: the current setup: a strategy, or a name and batches; a trainer's configuration, or
            the folder of a recording.
        lengths: the corpus: a profile, or (n,) tokens per sample; None for the one that a
            configuration names, and for a recording, which has its own samples.
        settings: fields of `batchstat.Settings`, which override those of a configuration.
        trainer: the trainer that `current` is of, where that is known, and lengths and settings are
            already those that it trains with.
        ignore_keys: keys of a configuration that decide nothing, beside those that are known.

    Raises:
        OptionError: no samples; lengths beside a recording, or without their corpus beside a
            configuration; an invalid configuration or setting.
        InputError: a configuration, corpus or recording that cannot be read.
    """
    if isinstance(current, Path):
        current = str(current)
    if trainer is None and isinstance(current, str):
        if names_configuration(current):
            return _of_configuration(current, lengths, settings, ignore_keys)
        if names_recording(current):
            if lengths is not None:
                raise OptionError(
                    f"{current}: a recording brings its own samples: leave lengths out"
                )
            from batchstat.trainers.preflight.current import of_recording, recorded

            return of_recording(recorded(local_path(current)), settings)
    if lengths is None:
        raise OptionError(
            "no samples: pass a profile or lengths, or a trainer's configuration or a recording as "
            "current"
        )
    row = current if current is None else parse_row("current", current)
    return Trained(lengths=lengths, settings=Settings(**settings), row=row, trainer=trainer)


def setup_warnings(now: "CurrentSetup") -> list[str]:
    """Return what a report has to say of a configuration, by which a corpus is trained on."""
    setup, samples = now.trainer.setup, len(now.trainer.profile)
    config, left_out = setup.path.as_posix(), samples - len(now.samples.profile)
    warnings = [f"{config}: {setup.assumption}"] if setup.assumption else []
    warnings += now.samples.warnings
    if left_out:
        warnings.append(
            f"{config} leaves out {left_out:,} of {samples:,} samples: batchstat preflight says why"
        )
    return warnings


def _of_configuration(
    current: str | Path, lengths: object, settings: Mapping[str, Any], ignore_keys: Sequence[str]
) -> Trained:
    # What trainers do to a corpus loads its readers, which most comparisons do not need.
    from batchstat.profiling.build import profile
    from batchstat.trainers.base.files import read_setup
    from batchstat.trainers.preflight.corpus import profile_keywords
    from batchstat.trainers.preflight.current import current_of

    if not (lengths is None or isinstance(lengths, Profile)):
        raise OptionError(f"{current}: which samples it keeps is unknown: pass a profile")
    setup = read_setup(current, ignore_keys=ignore_keys)
    if lengths is None:
        lengths = profile(**profile_keywords(setup))
    found = current_of(Trainer(setup=setup, profile=lengths, settings=settings))
    return found.warned(setup_warnings(found))
