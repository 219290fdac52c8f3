"""preflight.json."""

from collections.abc import Mapping
from typing import Any

from batchstat.documents.base import Amount, Count, Document, File, Positive, head, one_of
from batchstat.documents.comparison import Compared, Warned
from batchstat.documents.corpus import corpus_of
from batchstat.documents.device import Calibrated, Residual, calibrated
from batchstat.documents.runs import RecordedRun, run_of
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.errors import without_secrets
from batchstat.parameters import described

SCHEMA = "batchstat.preflight/3"
ROLES = ("best", "fastest", "packed")


@described("The trainer's configuration.")
class TrainerConfig(Document):
    path: str
    framework: str
    """The framework that it is for."""
    version: str
    """The version of the framework whose rules these are."""
    keys: dict[str, Any]
    """The keys that decide about batches, with their values, defaults included."""
    unused: list[str]
    """Keys in the file that decide nothing about batches."""
    assumes_unused: list[str]
    """Keys in the file that nobody knows: the report holds only if they decide nothing either."""


@described("What the trainer keeps of the corpus before it makes batches.")
class Samples(Document):
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


@described("How long training lasts.")
class Schedule(Document):
    epochs: Amount
    """Epochs that all steps make; the last may be a part of one."""
    steps_per_epoch: Count
    """Optimizer steps of an epoch, as the trainer counts them: strategy may have an incomplete one
    more, and those beyond a maximum.
    """
    total_steps: Count
    """Optimizer steps of the whole training."""
    samples_per_step: Amount
    """Mean samples of an optimizer step, on all ranks together."""
    tokens_per_step: Amount
    """Mean real tokens of an optimizer step, on all ranks together."""
    trained_samples: Count
    """Samples that the whole training computes at least once."""
    num_examples: Positive | None
    """Rows that the trainer packs, before any is repeated: what it logs as the number of examples.
    Null where it packs none."""
    warmup_steps: Count
    """Steps of the warm-up."""
    total_seconds: Amount | None
    """Time of all these steps; null without a calibration that has times."""
    total_cost: Amount | None
    """Cost of that time on all ranks, in the currency of --cost-per-hour; null without it."""


@described("A setup that could replace the configuration's, and what it gives.")
class Change(Document):
    role: one_of(ROLES)  # type: ignore[valid-type]
    """Whether it is the best change, the fastest one, or one that packs several samples into a
    row, which needs attention that keeps them apart."""
    keys: dict[str, Any] | None
    """Keys of the configuration with their values; null for a sampler of batchstat's."""
    speed_up: Amount
    """Compute of the configuration as it is / compute with the change: an estimate. With a
    calibration that has times, of time."""
    steps_per_epoch: Count
    """Optimizer steps of an epoch with the change."""
    strategy: Strategy
    """An epoch with the change."""


@described("What the plan and a recorded run have in common, batch for batch.")
class Proved(Document):
    folder: str
    """The recording."""
    batches: Count
    """Batches that were recorded, on all ranks."""
    planned: Count
    """Batches that are planned, on all ranks."""
    equal: Count
    """How many are as planned before the first that is not."""
    difference: str
    """What of that one differs; empty where all are equal."""
    causes: list[str]
    """Changes of the plan that make all equal, found by trying them."""
    hint: str
    """What else differs, where none was found."""


@described(
    """An epoch of a recorded run, and of the best change, by the times of its own batches."""
)
class Saved(Document):
    label: str
    """The change."""
    before: Amount
    """Seconds of the epoch as it was recorded."""
    after: Amount
    """Seconds with the change."""
    residual: Residual
    """How far the fitted seconds of a batch are from measured ones."""
    is_extrapolated: bool
    """Whether the change has batches larger or wider than all recorded ones."""


@described(
    """What a trainer does with a corpus by its own configuration. Keys may be added within this
    schema.
    """
)
class PreflightFile(Compared, File):
    config: TrainerConfig
    run: RecordedRun | None
    """The run that was recorded; null where none was."""
    proof: Proved | None
    """How the plan compares with the run that --recording names."""
    saved: Saved | None
    """What the best change saves in time; null where nothing was recorded, or its times do not tell
    it.
    """
    calibration: Calibrated | None
    """The calibration that --calibration names."""
    samples: Samples
    schedule: Schedule
    strategy: Strategy
    """An epoch of it."""
    changes: list[Change]
    """What would help: at most one change of each role."""
    warnings: list[Warned]
    """What the report may not be true of, and what else to know about its numbers."""


def roles(changes: Any) -> list[tuple[str, Any]]:
    """Return the changes that there are, each with its role."""
    found = zip(ROLES, (changes.star, changes.fastest, changes.packed), strict=True)
    return [(role, change) for role, change in found if change is not None]


def _shown(value: Any) -> Any:
    """Return values of a configuration without what may be a secret in an address."""
    if isinstance(value, Mapping):
        return {key: _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return without_secrets(value) if isinstance(value, str) else value


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
            "keys": _shown(setup.config.values()),
            "unused": list(setup.unused),
            "assumes_unused": list(setup.assumed),
        },
        "run": run_of(None if report.observed is None else report.observed.run),
        "calibration": calibrated(report.simulation.device, report.simulation.basis.widest),
        "samples": {
            "kept": len(report.samples.profile),
            "dropped": dict(report.samples.dropped),
            "held_out": report.samples.held_out,
            "truncated": counts.truncated_samples,
            "truncated_tokens": counts.truncated_tokens,
        },
        "schedule": {
            "epochs": report.epochs,
            "steps_per_epoch": report.steps_per_epoch,
            "total_steps": report.total_steps,
            "samples_per_step": report.samples_per_step,
            "tokens_per_step": report.tokens_per_step,
            "num_examples": report.num_examples,
            "trained_samples": report.trained_samples,
            "warmup_steps": report.warmup_steps,
            "total_seconds": report.total_seconds,
            "total_cost": report.total_cost,
        },
        "strategy": strategy_of(report.simulation.row),
        "changes": [
            {
                "role": role,
                "keys": None if change.keys is None else dict(change.keys),
                "speed_up": change.speed_up,
                "steps_per_epoch": change.row.counts.steps,
                "strategy": strategy_of(change.row),
            }
            for role, change in roles(report.changes)
        ],
    }
    return PreflightFile.of(made, report).to_json()
