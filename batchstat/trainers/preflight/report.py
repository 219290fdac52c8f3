"""`Preflight`: the report on what a trainer does to a corpus."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from batchstat.documents.preflight import Proof, SavedTime
from batchstat.findings import Finding, without_ignored
from batchstat.profiling.profile import Profile, TokenizerFacts
from batchstat.recording.collated import UNMARKED
from batchstat.recording.prepared_batches import trained_padding
from batchstat.recording.recorder.reading import GUESS
from batchstat.recording.run_facts import RunFacts
from batchstat.simulation.compare.changes import Changes
from batchstat.simulation.device import Device
from batchstat.simulation.device_warnings import DOES_NOT_FIT, fixed_excess, unfitting
from batchstat.simulation.results import Simulation
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.preflight.observed import Observed, WholeEpoch
from batchstat.words import counted


@dataclass(frozen=True, kw_only=True, repr=False)
class Preflight:
    """What a trainer does with a corpus by its own configuration.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml")
        >>> report
        Preflight('hf-trainer:batch_size=4', 25.5% padding, 15 steps per epoch, 45 in all)

    Attributes:
        created: time of creation, ISO 8601 in UTC.
        setup: what the configuration means.
        profile: the corpus, before the trainer drops anything.
        samples: what it keeps of it.
        simulation: an epoch of it.
        changes: what would help.
        num_examples: packed rows that the trainer logs as examples; None where it logs samples.
        observed: the trainer's object or the loader; None for a configuration in a file.
        proof: what it has in common with a recorded run; None where none was named.
        saved: what the best change saves by the recorded run's own times; None if unknown.
        noted: findings of whoever counted the corpus.
        ignored: ids of findings that the report leaves out.
    """

    created: str
    setup: TrainingSetup
    profile: Profile
    samples: TrainedSamples
    simulation: Simulation
    changes: Changes
    num_examples: int | None
    observed: Observed | None = None
    proof: Proof | None = None
    saved: SavedTime | None = None
    noted: tuple[Finding, ...] = ()
    ignored: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the setup, its padding and its steps on one line."""
        counts = self.simulation.row.counts
        return (
            f"Preflight({self.simulation.row.label!r}, {counts.padding_ratio:.1%} padding, "
            f"{self.steps_per_epoch:,} steps per epoch, "
            f"{self.total_steps:,} in all)"
        )

    @property
    def run(self) -> RunFacts | None:
        """The run that was recorded; None where none was."""
        return None if self.observed is None else self.observed.run

    @property
    def whole_epoch(self) -> WholeEpoch:
        """An epoch of the data set, as far as its length is known."""
        if self.observed is not None and self.observed.epoch is not None:
            return self.observed.epoch
        counts = self.simulation.row.counts
        return WholeEpoch(counts.steps, self.batches, len(self.samples.profile))

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of such an epoch."""
        return self.whole_epoch.steps

    @property
    def no_step(self) -> bool:
        """Whether a run was recorded that takes no optimizer step, so that it trains nothing."""
        return self.run is not None and not self.run.steps

    @property
    def batches(self) -> int:
        """Batches of an epoch: several forwards of the same samples are one."""
        rows = self.profile.rows
        return self.simulation.row.counts.batches // (1 if rows is None else len(rows.forwards))

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.setup.schedule.total_steps(self.steps_per_epoch)

    @property
    def epochs(self) -> float:
        """How often the whole training goes through the samples."""
        if self.setup.schedule.max_steps is None:
            return self.setup.schedule.epochs
        return self.total_steps / self.steps_per_epoch if self.steps_per_epoch else 0.0

    @property
    def samples_per_step(self) -> float:
        """Mean samples of an optimizer step, on all ranks together."""
        counts, others = self.simulation.row.counts, self.run and self.run.unstepped_samples
        return (counts.samples - (others or 0)) / counts.steps if counts.steps else 0.0

    @property
    def tokens_per_step(self) -> float:
        """Mean real tokens of an optimizer step, on all ranks together."""
        counts, others = self.simulation.row.counts, self.run and self.run.unstepped_tokens
        return (counts.real_tokens - (others or 0)) / counts.steps if counts.steps else 0.0

    @property
    def trained_samples(self) -> int:
        """Samples that the whole training computes at least once."""
        row = self.simulation.row
        distinct = row.counts.samples - row.counts.duplicated_samples
        if self.observed is not None and self.observed.epoch is not None:
            distinct = self.observed.epoch.samples or distinct
        if self.epochs >= 1:
            return distinct
        # Training ends within the first epoch. Up to there, a step has whole batches if their size
        # is fixed; otherwise the mean of a step is the best that is known.
        per_step = self.samples_per_step
        batch_size = row.request.strategy.batch_capacity
        if batch_size is not None and not row.packs_rows:
            settings = row.request.settings
            per_step = batch_size * settings.gradient_accumulation_steps * settings.world_size
        return min(round(self.total_steps * per_step), distinct)

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up."""
        return self.setup.schedule.warmup_steps(self.steps_per_epoch)

    @property
    def total_seconds(self) -> float | None:
        """Time of the whole training on the calibrated device; None where it is not known."""
        row, device = self.simulation.row, self.simulation.device
        if device is None or row.on_device.seconds is None:
            return None
        # Shapes are new in the first epoch alone.
        of_new_shapes = device.seconds_per_shape * row.counts.distinct_shapes
        epochs = self.total_steps / row.counts.begun_steps
        return of_new_shapes + (row.on_device.seconds - of_new_shapes) * epochs

    @property
    def total_cost(self) -> float | None:
        """Cost of that time; None where it is not known."""
        if (seconds := self.total_seconds) is None or (device := self.simulation.device) is None:
            return None
        return device.cost_of(seconds, self.simulation.basis.world_size)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Caveats of the report, and what else to know about its numbers."""
        warnings = (
            *self.noted,
            *_configuration_warnings(self.setup, self.samples, self.profile.tokenizer),
            *(() if self.observed is None else _observed_warnings(self.observed)),
            *self._schedule_warnings(),
            *_own_warnings(self.setup, self.simulation),
        )
        return without_ignored(warnings, self.ignored)

    def _schedule_warnings(self) -> Iterator[Finding]:
        """Yield warnings about too few steps for a training, its warm-up or its samples."""
        warmup, steps = self.warmup_steps, self.total_steps
        if self.no_step:
            yield Finding("schedule/no-step", "no optimizer step was taken: nothing was trained")
        elif not steps:
            yield Finding(
                "schedule/no-step",
                "no optimizer step is taken: an epoch has fewer batches on each rank than "
                "gradient_accumulation_steps, or there is no epoch: lower that or the batch size, "
                "or train longer",
            )
        elif steps < warmup:
            yield Finding(
                "schedule/long-warmup",
                f"the warm-up of {counted(warmup, 'step')} is longer than the whole training of "
                f"{counted(steps, 'step')}, so the learning rate never reaches its full value: "
                "lower the warm-up",
            )
        if 0 < self.epochs < 1:
            samples = "a part of the samples"
            if (in_epoch := self.whole_epoch.samples) is not None:
                samples = f"{self.trained_samples:,} of {counted(in_epoch, 'sample')}"
            yield Finding(
                "schedule/part-of-epoch",
                f"the training is {self.epochs:.2f} epochs: it computes {samples}, and never the "
                "others: raise the steps for all of them",
            )


def _configuration_warnings(
    setup: TrainingSetup, samples: TrainedSamples, counter: TokenizerFacts | None
) -> Iterator[Finding]:
    """Yield the warnings about a configuration, its samples and the tokenizer that counted them."""
    yield from (*setup.warnings, *samples.warnings)
    # The built-in tokenizer counts where none is named, but nobody trains with it.
    if counter is not None and counter.name == BUILTIN:
        tokenizer = setup.corpus.reading.get("tokenizer")
        why = "names no tokenizer" if tokenizer is None else f"trains with {tokenizer}"
        yield Finding(
            "tokenizer/other",
            f"the configuration {why}, but the built-in one counted: pass the one that you "
            "train with, --tokenizer",
        )


def _observed_warnings(observed: Observed) -> Iterator[Finding]:
    """Yield the warnings about what was observed, and what could not be read of it."""
    yield from observed.warnings
    if (facts := observed.loader) is None:
        return
    # Of guesses at what is padding, one is named. A recorded run cannot be read again.
    remedy = ": pass pad_token_id" if observed.run is None else ""
    guess = next((way for way in facts.by if way.startswith(GUESS)), None)
    if guess is not None:
        yield Finding("padding/guessed", f"what is padding is {guess}{remedy}")
    if UNMARKED in facts.by:
        yield Finding("padding/unmarked", UNMARKED)
    if facts.empty_rows:
        rows = counted(facts.empty_rows, "row")
        yield Finding("padding/empty-rows", f"{rows} without a token: take these out first")
    if facts.trained_padding:
        yield trained_padding(facts.trained_padding)


def _own_warnings(setup: TrainingSetup, simulation: Simulation) -> Iterator[Finding]:
    """Yield the warnings of a simulation, in the words of the configuration's own keys."""
    for warning in simulation.warnings:
        if warning.id == DOES_NOT_FIT and simulation.device is not None:
            what = unfitting([simulation.row], simulation.device)
            remedy = _memory_remedy(simulation.device, simulation.basis.widest)
            yield replace(warning, message=f"{what}: {remedy}")
        # Its remedy for unequal weights is a setting, `loss`, which no trainer has.
        elif warning.id != "loss/unequal-weights":
            yield replace(warning, message=setup.with_own_keys(warning.message))


def _memory_remedy(device: Device, widest: int) -> str:
    """Return, in words, what to change in a configuration whose batches do not fit on a device."""
    # Model and optimizer alone may be too large, whatever the batches are.
    if (excess := fixed_excess(device.calibration)) is not None:
        return excess
    most = device.tokens_that_fit(widest)
    if most is None:  # the calibration does not know how much memory a batch takes
        return "lower its batch size or its maximum length"
    if most < widest:
        return f"not even one row of {widest:,} tokens fits, so lower its maximum length"
    return f"batches of at most {most:,} tokens fit, so lower its batch size or its maximum length"
