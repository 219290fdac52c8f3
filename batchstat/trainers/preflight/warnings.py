"""Warnings attached to a preflight report."""

from collections.abc import Iterator
from dataclasses import replace

from batchstat.findings import Finding
from batchstat.profiling.profile import TokenizerFacts
from batchstat.recording.collated import UNMARKED
from batchstat.recording.prepared_batches import trained_padding
from batchstat.recording.recorder.reading import GUESS
from batchstat.simulation.device import Device
from batchstat.simulation.device_warnings import DOES_NOT_FIT, fixed_excess, unfitting
from batchstat.simulation.results import Simulation
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.preflight.observed import Observed
from batchstat.words import counted


def configuration_warnings(
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


def observed_warnings(observed: Observed) -> Iterator[Finding]:
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


def own_warnings(setup: TrainingSetup, simulation: Simulation) -> Iterator[Finding]:
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
