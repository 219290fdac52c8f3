"""A recorded run in JSON."""

from typing import Any

from batchstat.documents.base import Amount, Count, Document
from batchstat.parameters import described


@described("A run whose batches were recorded.")
class RecordedRun(Document):
    command: str
    """The command; empty for a part of a program."""
    python: str
    """The Python that was found for a script; empty where the command names one."""
    created: str
    """When it began."""
    folder: str
    """Where it was recorded."""
    trainer: str
    """The class of the Trainer; empty without one."""
    transformers: str
    """The version of transformers; empty without a Trainer."""
    torch: str
    """The version of torch."""
    ranks: Count
    """Ranks that were recorded."""
    world_size: Count
    """Ranks that there were."""
    steps: Count
    """Optimizer steps that were recorded."""
    computed_steps: Count
    """Optimizer steps that were computed: fewer in a dry run."""
    dry_run: bool
    """Whether an epoch of batches was to be read without training."""
    step_seconds: Amount | None
    """Median time of a computed step; null where no two were timed."""
    seconds: Amount
    """Time of all computed steps but the first, on one rank."""
    skipped_steps: Count
    """Steps that a scaler of gradients skipped."""
    forwards_without_gradient: Count
    """Forwards with token ids that were not trained, such as those of an evaluation."""
    tokens_without_gradient: Count
    """Tokens of these, padding included."""
    computed_tokens: Count
    """Tokens of the forwards that were trained, padding included."""


def run_of(run: Any) -> dict[str, Any] | None:
    """Return the facts of a recorded run; None where none was recorded."""
    if run is None:
        return None
    return RecordedRun.of(
        run, {"transformers": run.trainer_version, "dry_run": run.is_dry}
    ).to_json()
