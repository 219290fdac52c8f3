"""preflight.json."""

from typing import Annotated, Any

from batchstat.documents.base import Document
from batchstat.documents.comparison import Compared, simulation_document
from batchstat.documents.device import Calibrated
from batchstat.documents.parts import Sources
from batchstat.documents.profile import corpus_of
from batchstat.documents.strategy import Strategy, strategy_of
from batchstat.findings import Finding
from batchstat.hidden_secrets import hidden_in
from batchstat.parameters import described
from batchstat.recording.run_facts import RunFacts
from batchstat.records import SAME, Amount, Count, Positive, Record, UnboundedRatio, among, told

ROLES = ("best", "fastest", "packed", "loader")


@described("The trainer's configuration.")
class TrainerConfig(Document):
    path: str
    framework: str = told("The framework that it is for.")
    version: str = told("The version of the framework whose rules these are.")
    keys: dict[str, Any] = told(
        "The keys that decide about batches, with their values, defaults included."
    )
    unused: list[str] = told("Keys in the file that decide nothing about batches.")
    assumes_unused: list[str] = told(
        "Keys in the file that nobody knows: the report holds only if they decide nothing either.",
        of="assumed",
    )


@described("What the trainer keeps of the corpus before it makes batches.")
class Samples(Document):
    kept: Positive = told("Samples that it batches.")
    rows_per_sample: Positive = told("Rows of each that are computed together.")
    rows_are: Annotated[str, among(("", "pair", "view", "group"))] = told(
        "A pair of a chosen and a rejected answer, views, or a group: completions of one prompt, "
        "each of which counts as a sample. Empty of single rows."
    )
    dropped: dict[str, Count] = told("Samples that it drops, by the reason.", of="samples.dropped")
    truncated: Count = told(
        "Samples that it shortens.", of="simulation.row.counts.truncated_samples"
    )
    truncated_tokens: Count = told(
        "Tokens that these lost.", of="simulation.row.counts.truncated_tokens"
    )


@described("How long training lasts.")
class Schedule(Document):
    epochs: Amount = told("Epochs that all steps make; the last may be a part of one.")
    steps_per_epoch: Count = told(
        "Optimizer steps of an epoch of the data set; strategy has those that were recorded."
    )
    total_steps: Count = told("Optimizer steps of the whole training.")
    samples_per_step: Amount = told("Mean samples of an optimizer step, on all ranks together.")
    tokens_per_step: Amount = told("Mean real tokens of an optimizer step, on all ranks together.")
    trained_samples: Count = told("Samples that the whole training computes at least once.")
    num_examples: Positive | None = told(
        "Rows that the trainer packs, before any is repeated: what it logs as the number of "
        "examples. Null where it packs none."
    )
    warmup_steps: Count = told("Steps of the warm-up.")
    total_seconds: Amount | None = told(
        "Time of all these steps; null without a calibration that has times."
    )
    total_cost: Amount | None = told(
        "Cost of that time on all ranks, in the currency of --cost-per-hour; null without it."
    )


@described("A setup that could replace the configuration's, and what it gives.")
class Change(Document):
    role: Annotated[str, among(ROLES)] = told(
        "Whether it is the best change, the fastest one, one that packs several samples into a "
        "row, which needs attention that keeps them apart, or one that no line makes, but only the "
        "loader of the script."
    )
    keys: dict[str, Any] | None = told(
        "Keys of the configuration with their values; null for a sampler of batchstat's."
    )
    line: str = told("What to write in your trainer; empty for a sampler of batchstat's.")
    repair: str = told("What to do first, where rows are padded to more than they need; or empty.")
    speed_up: Amount = told(
        "Compute of the configuration as it is / compute with the change: an estimate. With a "
        "calibration that has times, of time."
    )
    steps_per_epoch: Count = told(
        "Optimizer steps of an epoch with the change.", of="row.counts.steps"
    )
    strategy: Strategy = told("An epoch with the change.")


@described("What the plan and a recorded run have in common, batch for batch.")
class Proof(Record):
    folder: str = told("The recording.")
    batches: Count = told("Batches that were recorded, on all ranks.")
    planned: Count = told("Batches that are planned, on all ranks.")
    equal: Count = told("How many are as planned before the first that is not.")
    difference: str = told("What of that one differs; empty where all are equal.", default="")
    causes: tuple[str, ...] = told(
        "Changes of the plan that make all equal, found by trying them.", default=()
    )
    hint: str = told("What else differs, where none was found.", default="")

    @property
    def is_equal(self) -> bool:
        """Whether all recorded batches are as planned."""
        return not self.difference


@described(
    """An epoch of a recorded run, and of the best change, by the times of its own batches."""
)
class SavedTime(Record):
    label: str = told("The change.")
    before: Amount = told("Seconds of the epoch as it was recorded.")
    after: Amount = told("Seconds with the change.")
    residual: UnboundedRatio = told("How far the fitted seconds of a batch are from measured ones.")
    is_extrapolated: bool = told(
        "Whether the change has batches larger or wider than all recorded ones."
    )

    @property
    def share(self) -> float:
        """Saved seconds / those of the epoch as it was recorded."""
        return 1 - self.after / self.before


@described(
    """What a trainer does with a corpus by its own configuration. Keys may be added within this
    schema.
    """
)
class PreflightFile(Compared, number="batchstat.preflight/5"):
    config: TrainerConfig
    run: RunFacts | None = told("The run that was recorded; null where none was.")
    proof: Proof | None = told("How the plan compares with the run that --recording names.")
    saved: SavedTime | None = told(
        "What the best change saves in time; null where nothing was recorded, or its times do not "
        "tell it."
    )
    calibration: Calibrated | None = told("The calibration that --calibration names.")
    samples: Samples = told(of=SAME)
    schedule: Schedule = told(of=SAME)
    strategy: Strategy = told("An epoch of it.")
    changes: list[Change] = told("What would help: at most one change of each role.")
    warnings: list[Finding] = told(
        "Caveats of the report, and what else to know about its numbers."
    )


def preflight_document(report: Any) -> dict[str, Any]:
    """Return preflight.json of a `batchstat.Preflight`."""
    setup, profile, simulation = report.setup, report.profile, report.simulation
    rows, per_prompt = profile.rows, report.observed and report.observed.per_prompt
    # The keys of `config` that are not attributes of the setup.
    config = {"path": setup.path.as_posix(), "keys": hidden_in(setup.config.values())}
    advice = report.changes
    # `Sources` take a key from the mapping if it has it, else from the change.
    changes = [
        Sources([{"role": role, "strategy": strategy_of(change.row)}, change])
        for role, change in zip(
            ROLES, (advice.star, advice.fastest, advice.packed, advice.in_loader), strict=True
        )
        if change is not None
    ]
    composed = {
        **simulation_document(simulation),
        "corpus": corpus_of(profile.corpus, len(profile)),
        "kept": len(report.samples.profile),  # a key of the object `samples`, as the next two
        "rows_per_sample": sum(rows.forwards) if rows else per_prompt or 1,
        "rows_are": rows.kind if rows else "group" if per_prompt else "",
        "tokenizer": profile.tokenizer,
        "config": Sources([config, setup]),
        "changes": changes,
    }
    return PreflightFile.written(report.created, composed, report)
