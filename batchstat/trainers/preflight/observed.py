"""What a trainer's object or a loader trains on: its samples, and its batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchstat.calibration.calibration import Calibration
from batchstat.findings import Finding
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.build import profile as count
from batchstat.profiling.profile import Profile
from batchstat.recording.collated import CollatedBatches, LoaderFacts
from batchstat.recording.given_batches import GivenBatches
from batchstat.recording.prepared_rows import PreparedRows
from batchstat.recording.run_facts import RunFacts
from batchstat.recording.trainer_object import TrainerObject
from batchstat.trainers.base.keys import TrainerConfig
from batchstat.trainers.base.rules import Batching, Schedule
from batchstat.trainers.base.setup import TrainingSetup

WITHOUT_LABELS = (
    "no labels of tokens were seen: all but the first token of a sample count as trained"
)
"""The warning where no labels of tokens are known that stay the same in each epoch."""
WITHOUT_COUNT = "axolotl"
"""The loss of a Trainer whose model is not given the step's tokens: a mean of batch means."""

LOADER = TrainingSetup(
    framework="loader",
    title="a loader",
    version="",
    path=Path("loader"),
    config=TrainerConfig(where="loader", given_keys=frozenset()),
    batching=Batching(strategy=StrategySpec.of("static")),
    schedule=Schedule(epochs=1),
)
"""The setup of a loader, of which no configuration is known."""
APPLY_TO_TRAINER = "batchstat.apply(trainer)"
APPLY_TO_LOADER = "loader = batchstat.apply(loader, model)"
PAD_LESS = "pad to the longest row of a batch where you collate"
"""Lines that take padding out in Python, and what does where none can."""


class WholeEpoch(NamedTuple):
    """An epoch of the data set, of which a part was read or recorded."""

    steps: int
    batches: int
    samples: int | None  # None where it is not known


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """What a trainer's object, a loader or a recorded run trains on."""

    kind: str
    setup: TrainingSetup
    profile: Profile
    settings: Mapping[str, Any]  # the settings of the training
    batches: GivenBatches | None = None
    trainer: TrainerObject | None = None  # what the trainer's object says of itself
    rows: PreparedRows | None = None  # the rows of the trainer's data set
    loader: LoaderFacts | None = None  # how batches were read
    padded: str = ""  # what is padded before rows are batched, in words; empty if nothing is
    repair: str = ""  # the line that takes that padding out of batches; empty if there is none
    edit: str = ""  # in words, what takes it out of the rows of a Trainer; empty if not known
    unpadded: StrategySpec | None = None
    without_padding: Profile | None = None
    warnings: tuple[Finding, ...] = ()  # warnings of the report
    epoch: WholeEpoch | None = None  # that of the data set, where less was read and it is known
    rank: int = 0  # rank of this process, as the sampler of a loader may know it; else 0
    is_stream: bool = False  # whether its data set has a sequence of its own
    run: RunFacts | None = None  # what a recording says beside its batches
    times: Calibration | None = None  # what its batches took

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that prints the report for all ranks."""
        return self.rank == 0 if self.trainer is None else self.trainer.is_main

    @property
    def no_advice(self) -> bool:
        """Whether nothing can be compared with it: no strategy plans two widths, completions have
        no length before they are generated, and a run that takes no step trains nothing.
        """
        is_known = not self.has_decoder and self.per_prompt is None
        return not is_known or (self.run is not None and not self.run.steps)

    @property
    def is_part(self) -> bool:
        """Whether less than an epoch was read or recorded."""
        return any(each.id == "recording/part-of-epoch" for each in self.warnings)

    @property
    def has_token_labels(self) -> bool:
        """Whether labels say which tokens are trained; a collator may draw these in each batch."""
        collating = None if self.trainer is None else self.trainer.collating
        is_random = collating is not None and collating.labels == "random"
        return self.profile.trained is not None or is_random

    @property
    def is_indexed(self) -> bool:
        """Whether a sampler of the profile can draw from the data set of a Trainer."""
        if self.rows is None or not self.profile.is_indexed or self.without_padding is not None:
            return False
        return bool(self.rows.lengths.all())  # no sampler draws a sample without tokens

    @property
    def has_row_labels(self) -> bool:
        """Whether rows have one label each, as for a classifier, or one output."""
        if self.trainer is not None and self.trainer.labels and not self.has_token_labels:
            return True
        return self.loader is not None and "of rows" in self.loader.loss

    @property
    def per_prompt(self) -> int | None:
        """Completions of each prompt, which it generates; None where rows are not generated."""
        if self.trainer is None or self.trainer.together != "group":
            return None
        return int(self.trainer.arguments["num_generations"])

    @property
    def has_whole_groups(self) -> bool:
        """Whether a step has all completions of its prompts: those that are generated together are
        shuffled over their batches.
        """
        keys = {} if self.trainer is None else self.trainer.arguments
        return keys.get("steps_per_generation") in (None, keys.get("gradient_accumulation_steps"))

    @property
    def has_decoder(self) -> bool:
        """Whether its batches have widths of an encoder and of a decoder."""
        return self.loader is not None and self.loader.widths is not None


def observe_batches(
    collated: CollatedBatches,
    *,
    setup: TrainingSetup,
    settings: Mapping[str, Any],
    repair: str,
    apply: str = "",
    was_cut: bool = False,
    **known: Any,
) -> Observed:
    """Return what is known of a training whose batches were read. `repair` is the line that would
    take out padding to one width, and `apply` one that regroups steps; where padding `was_cut`,
    rows still have it.
    """
    settings = {"order": "file", **settings}  # the samples are in the sequence of the batches
    repair = repair if collated.constant_widths else ""
    trainer, edit = known.get("trainer"), ""
    if trainer is not None and (repair or was_cut):
        edit = "remove padding where you tokenize"
        edit += trainer.padding_collator(collated.samples.trained is not None)
    batches, unpadded = replace(collated.batches, repair=repair, apply=apply), None
    batch_sizes = np.diff(batches.batch_offsets)  # (n_batches,) rows of each batch
    size = int(batch_sizes[0])
    is_one_size = bool((batch_sizes[:-1] == size).all()) and batch_sizes[-1] <= size  # last: short
    if repair and setup.batching.strategy.name == "hf-group-by-length":
        unpadded = setup.batching.strategy  # groups, once rows have lengths of their own
    elif repair and is_one_size and not collated.facts.empty_rows:
        # All rows are padded to one width: the strategy `static` makes the same batches with less
        # padding. It is their `origin`: the strategy that makes them from rows without padding.
        unpadded = StrategySpec.of("static", batch_size=size)
        all_settings = Settings(**{**setup.batching.settings, **settings})
        origin = unpadded.request(PlanInputs(collated.samples, None).resolve(all_settings))
        batches = replace(batches, origin=origin)
    return Observed(
        setup=setup,
        profile=profile_of(collated.samples),
        settings=settings,
        batches=batches,
        loader=collated.facts,
        padded=_width_in_words(collated),
        repair=repair,
        edit=edit,
        unpadded=unpadded,
        **known,
    )


def _width_in_words(collated: CollatedBatches) -> str:
    """Return, in words, to which widths rows are padded whatever they need; else an empty text."""
    if (widths := collated.facts.widths) is not None:  # (n_batches, 2) of encoder and decoder
        widest = widths.max(axis=0)
        # A single batch does not show whether others have its widths.
        is_same = len(widths) > 1 and bool((widths == widest).all())
        how = "every row is padded to" if is_same else "rows are padded to at most"
        return f"{how} {widest[0]:,} in the encoder and {widest[1]:,} in the decoder"
    words = _in_words(collated.constant_widths)
    return words and f"every row is padded to {words}"


def _in_words(widths: tuple[int, ...]) -> str:
    return " or ".join(f"{width:,}" for width in dict.fromkeys(widths))


def profile_of(samples: Samples) -> Profile:
    """Return the profile of samples that were read, whose records index a data set or nothing."""
    import pandas as pd

    profile = count(pd.DataFrame({"tokens": samples.lengths}), length_column="tokens")
    return replace(
        profile,
        corpus=replace(profile.corpus, indexed="data set" if samples.is_indexed else "nothing"),
        records=samples.records,
        rows=samples.rows,
        kinds={} if samples.trained is None else {"trained": samples.trained},
    )
