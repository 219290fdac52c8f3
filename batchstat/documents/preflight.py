"""preflight.json."""

from typing import Any

from batchstat.documents.base import Amount, Count, Document, File, Positive, head
from batchstat.documents.comparison import Compared, Warned
from batchstat.documents.corpus import corpus_of
from batchstat.documents.device import Calibrated, calibrated
from batchstat.documents.strategy import Strategy, strategy_of

SCHEMA = "batchstat.preflight/2"


class TrainerConfig(Document):
    """The trainer's configuration."""

    path: str
    framework: str
    """The framework that it is for."""
    version: str
    """The version of the framework whose rules these are."""
    keys: dict[str, Any]
    """The keys that decide about batches, with their values, defaults included."""
    unused: list[str]
    """Keys in the file that decide nothing about batches."""


class Samples(Document):
    """What the trainer keeps of the corpus before it makes batches."""

    kept: Positive
    """Samples that it batches."""
    dropped: dict[str, Count]
    """Samples that it drops, by the reason."""
    held_out: Count
    """Samples that it evaluates on instead."""
    truncated: Count
    """Samples that it shortens."""
    truncated_tokens: Count
    """Tokens that these lost."""


class Schedule(Document):
    """How long training lasts."""

    epochs: Amount
    """Epochs, if they decide; the last may be a part of one."""
    steps_per_epoch: Count
    """Optimizer steps of an epoch, as the trainer counts them: strategy may have an incomplete one
    more, and those beyond a maximum.
    """
    total_steps: Count
    """Optimizer steps of the whole training."""
    warmup_steps: Count
    """Steps of the warm-up."""
    total_seconds: Amount | None
    """Time of all these steps; null without a calibration that has times."""
    total_cost: Amount | None
    """Cost of that time on all ranks, in the currency of --cost-per-hour; null without it."""


class Change(Document):
    """Other values for keys of the configuration, and what they give."""

    keys: dict[str, Any]
    """The keys with their values."""
    speed_up: Amount
    """Compute of the configuration as it is / compute with the change: an estimate. With a
    calibration that has times, of time."""
    steps_per_epoch: Count
    """Optimizer steps of an epoch with the change."""
    strategy: Strategy
    """An epoch with the change."""


class PreflightFile(Compared, File):
    """What a trainer does with a corpus by its own configuration. Keys may be added within this
    schema.
    """

    config: TrainerConfig
    calibration: Calibrated | None
    """The calibration that --calibration names."""
    samples: Samples
    schedule: Schedule
    strategy: Strategy
    """An epoch of it."""
    changes: list[Change]
    """Changes of its keys that save compute, those that save most first."""
    warnings: list[Warned]
    """What the report may not be true of, and what else to know about its numbers."""


def preflight_document(report: Any) -> dict[str, Any]:
    """Return preflight.json of a `batchstat.Preflight`."""
    setup, profile = report.setup, report.profile
    counts = report.simulation.row.counts
    made = {
        **head(SCHEMA, report.created),
        "corpus": corpus_of(profile.corpus, len(profile)),
        "tokenizer": profile.tokenizer,
        "basis": report.simulation.basis,
        "config": {
            "path": setup.path.as_posix(),
            "framework": setup.framework,
            "version": setup.version,
            "keys": dict(setup.values),
            "unused": list(setup.unused),
        },
        "calibration": calibrated(report.simulation.device, report.simulation.basis.widest),
        "samples": {
            "kept": len(report.samples.profile),
            "dropped": dict(report.samples.dropped),
            "held_out": report.samples.held_out,
            "truncated": counts.truncated_samples,
            "truncated_tokens": counts.truncated_tokens,
        },
        "schedule": {
            "epochs": setup.schedule.epochs,
            "steps_per_epoch": report.steps_per_epoch,
            "total_steps": report.total_steps,
            "warmup_steps": report.warmup_steps,
            "total_seconds": report.total_seconds,
            "total_cost": report.total_cost,
        },
        "strategy": strategy_of(report.simulation.row),
        "changes": [
            {
                "keys": dict(change.keys),
                "speed_up": change.speed_up,
                "steps_per_epoch": change.steps_per_epoch,
                "strategy": strategy_of(change.simulation.row),
            }
            for change in report.changes
        ],
    }
    return PreflightFile.of(made, report).to_json()
