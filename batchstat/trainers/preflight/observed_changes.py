"""What would help a trainer's object: what its data set has done before, and its own arguments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from batchstat.planning.settings import Settings
from batchstat.simulation.compare.trainer_change import TrainerChange
from batchstat.trainers.preflight.observed import Observed


def changes_of_object(
    observed: Observed, settings: Settings, changes: Sequence[TrainerChange]
) -> Iterator[TrainerChange]:
    """Yield what would help a trainer's object or a loader: padding taken out before rows are
    batched, and with that the arguments of the trainer, where these decide. Nothing where it packs
    already, or has an encoder and a decoder.

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
    if not observed.repair:
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
    for each in changes:
        line = f"{observed.repair}, and {each.line}"
        yield replace(each, line=line, profile=each.profile if samples is None else samples)
