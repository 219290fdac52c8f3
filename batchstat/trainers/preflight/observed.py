"""What a trainer's object or a loader trains on: its samples, and its batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchstat.calibration.calibration import Calibration
from batchstat.errors import InputError, counted, short
from batchstat.lengths.arrays import Ints
from batchstat.lengths.token_ranges import TokenRanges
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.recording.collated import CollatedBatches, LoaderFacts, collated_batches
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.prepared_batches import (
    batches_of_rows,
    faults_of_padding,
    padding_before_batching,
)
from batchstat.recording.prepared_rows import PreparedRows
from batchstat.recording.run_facts import RunFacts
from batchstat.recording.trainer_object import (
    TrainerObject,
    is_trainer,
    read_trainer,
    unchanged_random_state,
)
from batchstat.recording.versions import check_versions
from batchstat.simulation.meters.token_weights import UNKNOWN
from batchstat.trainers.base.files import setup_of
from batchstat.trainers.base.keys import TrainerConfig
from batchstat.trainers.base.rules import Batching, Schedule
from batchstat.trainers.base.samples import keep_all
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.registry import CONFIGURATIONS

_PAD_LESS = "pad to the longest row of a batch, where you tokenize or collate"

WITHOUT_LABELS = (
    "no labels of tokens were seen: all but the first token of a sample count as trained"
)
"""What is said where neither the data set nor its batches have labels that stay the same."""
WITHOUT_COUNT = "axolotl"
"""The loss of a Trainer whose model is not given the number of trained tokens."""

LOADER = TrainingSetup(
    framework="loader",
    title="a loader",
    version="",
    path=Path("loader"),
    config=TrainerConfig(where="loader", given_keys=frozenset()),
    batching=Batching(strategy=StrategySpec.of("static")),
    schedule=Schedule(epochs=1),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What a trainer's object or a loader trains on.

    Attributes:
        kind: the class of the object.
        setup: what its arguments mean.
        profile: the samples as they are trained on.
        settings: the settings of the training.
        batches: the batches, where they are not those that the strategy of the setup makes.
        trainer: the trainer's object; None for a loader.
        rows: the rows of its data set; None where its own loader was read.
        loader: how its batches were read; None where its data set was.
        padded: what is padded before rows are batched, in words; empty where nothing is.
        repair: what takes that padding out; empty where nothing is known to.
        unpadded: the strategy that makes the same batches then; None where there is none.
        without_padding: the samples without padding that counts as real; None where there is none.
        warnings: caveats of the report.
        rank: of a loader, whose sampler may know it.
        run: what a recording says beside its batches; None without one.
        times: what its batches took; None where nothing was recorded or that cannot be told.
    """

    kind: str
    setup: TrainingSetup
    profile: Profile
    settings: Mapping[str, Any]
    batches: GivenBatches | None = None
    trainer: TrainerObject | None = None
    rows: PreparedRows | None = None
    loader: LoaderFacts | None = None
    padded: str = ""
    repair: str = ""
    unpadded: StrategySpec | None = None
    without_padding: Profile | None = None
    warnings: tuple[str, ...] = ()
    rank: int = 0
    run: RunFacts | None = None
    times: Calibration | None = None

    @property
    def is_main(self) -> bool:
        """Whether this process speaks for all ranks."""
        if self.trainer is None:
            return self.rank == 0
        return self.trainer.is_main

    @property
    def has_token_labels(self) -> bool:
        """Whether labels are of tokens; those that are drawn again in each batch are."""
        collating = None if self.trainer is None else self.trainer.collating
        is_random = collating is not None and collating.labels == "random"
        return self.profile.trained is not None or is_random

    @property
    def is_indexed(self) -> bool:
        """Whether the records of the profile index the data set that trains."""
        if self.rows is None or self.rows.is_packed or self.without_padding is not None:
            return False
        return bool(self.rows.lengths.all())  # no sampler draws a sample without tokens

    @property
    def has_decoder(self) -> bool:
        """Whether its batches have widths of an encoder and of a decoder."""
        return self.loader is not None and self.loader.widths is not None


def observe(
    target: Any, settings: Mapping[str, Any], steps: int | None, pad_token_id: int | None
) -> Observed:
    """Return what an object trains on.

    Args:
        target: a Trainer of transformers or of a subclass, or a loader.
        settings: fields of `batchstat.Settings` that override it.
        steps: how many steps of its own loader to read; by default an epoch.
        pad_token_id: what pads the batches of its loader, where no mask says so.

    Raises:
        InputError: something else, no batch, or an environment that is too old.
    """
    if is_trainer(target):
        check_versions()
        return _of_trainer(target, settings, steps, pad_token_id)
    if not hasattr(target, "__iter__"):
        raise InputError(
            f"{short(target)} is neither a trainer's configuration, a Trainer nor a loader of "
            "batches: pass the file, the object or the DataLoader"
        )
    kind, wanted = type(target).__name__, Settings(**settings)
    limit = steps and steps * wanted.gradient_accumulation_steps * wanted.world_size
    with unchanged_random_state(target):
        batches = collated_batches(kind, target, limit=limit, pad_token_id=pad_token_id)
    return of_batches(
        batches,
        kind=kind,
        setup=replace(LOADER, path=Path(kind)),
        settings={"loss": UNKNOWN, **settings},
        warnings=_of_part(steps),
        rank=getattr(getattr(target, "sampler", None), "rank", 0),
    )


def _of_trainer(
    target: Any, settings: Mapping[str, Any], steps: int | None, pad_token_id: int | None
) -> Observed:
    trainer = read_trainer(target)
    setup = setup_of_trainer(trainer)
    own: dict[str, Any] = {**settings}
    own.setdefault("world_size", trainer.world_size)
    # Batches of a data set that is packed already have no size in the strategy.
    own.setdefault("batch_size", setup.config.values()["per_device_train_batch_size"])
    if trainer.own_loss:
        own.setdefault("loss", UNKNOWN)
    elif not trainer.takes_count:
        own.setdefault("loss", WITHOUT_COUNT)
    if trainer.rows is not None:
        return _of_rows(trainer, trainer.rows, setup, own)
    accumulation = {**setup.batching.settings, **own}.get("gradient_accumulation_steps", 1)
    # A stream may have no end, and a Trainer takes one only with a number of steps.
    most_steps = setup.schedule.max_steps if steps is None else steps
    with unchanged_random_state():
        loader = target.get_train_dataloader()
        with unchanged_random_state(loader):
            collated = collated_batches(
                trainer.kind,
                loader,
                limit=most_steps and most_steps * accumulation,
                pad_token_id=pad_token_id,
                has_decoder=trainer.has_decoder,
            )
    warnings = [*_of_part(steps)]
    if own["world_size"] > 1:
        warnings.append(
            f"the loader of one rank was read: {own['world_size']} train, each with batches of its "
            "own"
        )
    own |= {"world_size": 1, "max_length": int(collated.samples.lengths.max())}
    return of_batches(
        collated,
        kind=trainer.kind,
        setup=setup,
        settings=own,
        trainer=trainer,
        warnings=tuple(warnings),
    )


def of_batches(
    collated: CollatedBatches, *, setup: TrainingSetup, settings: Mapping[str, Any], **known: Any
) -> Observed:
    """Return what the batches of a loader are; `known` are other attributes of `Observed`."""
    own = {"order": "file", **settings}  # the samples are in the sequence of the batches
    batches, unpadded = collated.batches, None
    sizes = np.diff(batches.batch_offsets)
    # The same batches with less padding, where each row is padded to one width.
    is_one_size = bool((sizes[:-1] == sizes[0]).all()) and sizes[-1] <= sizes[0]
    if collated.constant_width is not None and is_one_size:
        unpadded = StrategySpec.of("static", batch_size=int(sizes[0]))
        wanted = Settings(**{**setup.batching.settings, **own})
        origin = unpadded.request(PlanInputs(collated.samples, None).resolve(wanted))
        batches = replace(batches, origin=origin)
    return Observed(
        setup=setup,
        profile=_profile(collated.samples.lengths, collated.samples.trained),
        settings=own,
        batches=batches,
        loader=collated.facts,
        padded=_width(collated),
        repair=_PAD_LESS if unpadded else "",
        unpadded=unpadded,
        **known,
    )


def setup_of_trainer(trainer: TrainerObject) -> TrainingSetup:
    """Return what the arguments of a Trainer mean; those that no rule knows decide nothing that is
    not seen in its data set or its batches.
    """
    known = CONFIGURATIONS[trainer.framework].knows
    given = {
        key: value
        for key, value in trainer.arguments.items()
        if known(key) and value is not None  # an argument that is not used
    }
    setup = setup_of(given, trainer.framework, Path(trainer.arguments_class))
    # Samples are prepared: truncated, dropped and shuffled already. Its arguments are those of its
    # own version, whatever keys that has.
    return replace(setup.with_batching(prepare=keep_all), warnings=())


def _of_part(steps: int | None) -> tuple[str, ...]:
    if steps is None:
        return ()
    return (f"{counted(steps, 'step')} read: what an epoch has and loses is of these alone",)


def _width(found: CollatedBatches) -> str:
    """Return in words how wide rows are, where that does not follow from their samples."""
    if (both := found.facts.widths) is not None:
        most = both.max(axis=0)
        is_same = len(both) > 1 and bool((both == most).all())
        how = "every row is padded to" if is_same else "rows are padded to at most"
        return f"{how} {most[0]:,} in the encoder and {most[1]:,} in the decoder"
    width = found.constant_width
    return "" if width is None else f"every row is padded to {width:,}"


def _profile(lengths: Ints, trained: TokenRanges | None) -> Profile:
    """Return the profile of samples that a trainer has tokenized."""
    import pandas as pd

    found = count(pd.DataFrame({"tokens": lengths}), length_column="tokens")
    return found if trained is None else replace(found, kinds={"trained": trained})


def _of_rows(
    trainer: TrainerObject, rows: PreparedRows, setup: TrainingSetup, own: Mapping[str, Any]
) -> Observed:
    """Return what a prepared data set is: its own batches where rows are padded or packed before
    they are batched, else those of the strategy.
    """
    trained = None if rows.trained is None else TokenRanges.of_counts(rows.trained)
    collating = trainer.collating
    assert collating is not None
    if collating.multiple > 1:
        padded_as = {"pad_to_multiple_of": collating.multiple}
        setup = setup.with_batching(settings={**setup.batching.settings, **padded_as})
    batches = None
    if rows.padded_tokens or trainer.packs or collating.width is not None:
        settings = Settings(**{**setup.batching.settings, **own})
        batches = batches_of_rows(rows, collating, setup.batching.strategy, settings)
    padded, repair = padding_before_batching(rows, collating)
    return Observed(
        kind=trainer.kind,
        setup=setup,
        profile=_profile(rows.lengths, trained),
        settings=own,
        batches=batches,
        trainer=trainer,
        rows=rows,
        padded=padded,
        repair=repair,
        unpadded=setup.batching.strategy,
        without_padding=_profile(rows.text_lengths, None) if rows.ends_in_padding else None,
        warnings=tuple(faults_of_padding(rows, collating)),
    )
