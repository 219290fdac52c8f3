"""Warnings attached to a preflight report."""

from collections.abc import Iterator
from dataclasses import replace

from batchstat.errors import counted
from batchstat.frameworks.samples import TrainedSamples
from batchstat.frameworks.setup import TrainingSetup
from batchstat.profiling.profile import TokenizerFacts
from batchstat.simulation.results import ReportWarning
from batchstat.tokenization.builtin import NAME as BUILTIN


def configuration_warnings(
    setup: TrainingSetup, samples: TrainedSamples, counter: TokenizerFacts | None
) -> Iterator[ReportWarning]:
    """Yield what a report may not be true of.

    Args:
        setup: what the configuration means.
        samples: what the trainer keeps of the corpus.
        counter: the tokenizer that counted; None if there was none.
    """
    found = [*([setup.ranks_from] if setup.ranks_from else []), *setup.warnings, *samples.warnings]
    if counter is not None and counter.name == BUILTIN:
        named = setup.reading.get("tokenizer")
        why = "names no tokenizer" if named is None else f"trains with {named}"
        found.append(
            f"the configuration {why}, but the built-in one counted: pass the one that you "
            "train with, --tokenizer"
        )
    for message in found:
        yield ReportWarning("configuration", message)


def warmup_warnings(warmup: int, steps: int) -> Iterator[ReportWarning]:
    """Yield a warning about a warm-up that is longer than the training of so many steps."""
    if 0 < steps < warmup:
        yield ReportWarning(
            "warmup_too_long",
            f"the warm-up of {counted(warmup, 'step')} is longer than the whole training of "
            f"{counted(steps, 'step')}, so the learning rate never reaches its full value: lower "
            "the warm-up",
        )


def simulation_warnings(
    setup: TrainingSetup, found: tuple[ReportWarning, ...]
) -> Iterator[ReportWarning]:
    """Yield the warnings of a simulation, in the words of the configuration's own keys.

    The remedy for unequal weights is a setting that a trainer does not have.
    """
    for each in found:
        if each.code != "token_weights":
            yield replace(each, message=setup.with_own_keys(each.message))
