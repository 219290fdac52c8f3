"""`preflight`: reports what a trainer does to a corpus, by its configuration or its object."""

from datetime import UTC, datetime
from pathlib import Path

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel
from batchstat.documents.preflight import SavedTime
from batchstat.errors import InputError, OptionError
from batchstat.planning.frameworks.packed_rows import ShuffledRows
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings
from batchstat.planning.shares import EpochShares
from batchstat.planning.strategies.spec import RowRequest
from batchstat.simulation.compare.candidates import Candidates, simulate_candidates
from batchstat.simulation.compare.changes import Changes
from batchstat.simulation.device import Device, as_device
from batchstat.simulation.results import Simulation
from batchstat.simulation.warnings import simulation_warnings
from batchstat.storage.addresses import local_path
from batchstat.trainers.base.setup import TrainingSetup
from batchstat.trainers.preflight.current import CurrentSetup
from batchstat.trainers.preflight.observed import Observed
from batchstat.trainers.preflight.proof import prove
from batchstat.trainers.preflight.report import Preflight


def report_on(
    current: CurrentSetup, device: Device | None = None, recording: str | Path | None = None
) -> Preflight:
    """Return the report on what is trained today. Raises OptionError: settings that contradict each
    other; InputError: no samples are left, or the recording cannot be described.
    """
    trainer = current.trainer
    setup, observed = trainer.setup, trainer.observed
    if device is not None:  # gradients stay in its memory between accumulated batches
        device = device.accumulating(current.settings.gradient_accumulation_steps)
    candidates = _simulate(current, device)
    row = candidates.changes.current  # the results of the current setup
    basis = row.request.settings
    shares = candidates.epochs.of(basis)  # the samples of an epoch, and of each rank
    stats = current.samples.profile.stats
    warnings = simulation_warnings([row], shares.epoch, basis, stats, device)
    return Preflight(
        created=datetime.now(UTC).isoformat(),
        setup=setup,
        profile=trainer.profile,
        samples=current.samples,
        simulation=Simulation(basis, row, warnings, device),
        changes=candidates.changes,
        num_examples=_num_examples(row.request, shares, observed),
        observed=observed,
        proof=None if recording is None else prove(current, local_path(recording)),
        saved=None if observed is None else _saved_time(observed, current, candidates.changes),
    )


def device_of(
    setup: TrainingSetup,
    calibration: Calibration | str | Path | None,
    cost_per_hour: float | None,
    model: CostModel | None = None,
    settings: Settings | None = None,
) -> Device | None:
    """Return the device that a configuration trains on. Raises InputError: it was calibrated with
    another dtype or gradient checkpointing than the configuration trains with.
    """
    device = as_device(calibration, cost_per_hour, model, settings)
    # Measurements of the user's own function, or of a recorded run, do not say how it trained.
    if device is None or not device.calibration.setup.is_described:
        return device
    for name in ("dtype", "gradient_checkpointing"):
        measured, trained = getattr(device.calibration.setup, name), getattr(setup, name)
        # None: the configuration does not say it, and the trainer's default is not known here.
        if trained is not None and trained != measured:
            words = [str(value).lower() for value in (measured, trained)]
            raise InputError(
                f"{device.file or 'the calibration'} was measured with {name}={words[0]}, but "
                f"{setup.path.as_posix()} trains with {name}={words[1]}",
                "run batchstat calibrate with it",
            )
    return device


def _saved_time(observed: Observed, current: CurrentSetup, changes: Changes) -> SavedTime | None:
    """Return what the best change saves by the times of the run's own batches; None if unknown."""
    times, best = observed.times, changes.advised
    if best is None or times is None or times.time is None:
        return None
    # The run's own times as a calibration, with which all candidates are simulated again.
    device = Device(calibration=times).accumulating(current.settings.gradient_accumulation_steps)
    timed = _simulate(current, device)
    changed = next((tried.row for tried in timed.tried if tried.row.label == best.row.label), None)
    before = timed.changes.current.on_device.seconds
    if changed is None or changed.on_device.seconds is None or before is None:
        return None
    return SavedTime(
        label=best.row.label,
        before=before,
        after=changed.on_device.seconds,
        residual=times.time.residual,
        is_extrapolated=changed.on_device.is_extrapolated,
    )


def _simulate(current: CurrentSetup, device: Device | None) -> Candidates:
    """Simulate the current setup and what would help; errors name the user's own keys."""
    observed = current.trainer.observed
    try:
        return simulate_candidates(
            resolve_inputs(current.samples.profile, keep=current.settings.keep_labels),
            current.settings,
            strategies=current.strategies,
            current=current.row,
            trainer=current.trainer.changes,
            # Only a Trainer's object is shown the lines that give it a sampler.
            takes_sampler=observed is None or observed.is_indexed,
            device=device,
        )
    except (InputError, OptionError) as error:
        error.args = tuple(map(current.trainer.setup.with_own_keys, error.args))
        raise


def _num_examples(
    request: RowRequest, shares: EpochShares, observed: Observed | None
) -> int | None:
    """Return the rows packed before training, which the trainer logs as examples; None if none."""
    # Rows that a collator joins, or that were recorded, are none of the data set.
    if observed is not None:
        rows = observed.rows
        return len(rows.widths) if rows is not None and rows.is_packed else None
    strategy, epoch = request.strategy, shares.epoch.whole  # the samples of all ranks together
    # Of batchstat's strategies, only ShuffledRows pack the data set before it is batched.
    if not isinstance(strategy, ShuffledRows):
        return None
    n_rows = strategy.count_rows(epoch.lengths, epoch.starts)
    return None if n_rows == epoch.sample_count else n_rows
