"""`check`: the numbers of one strategy on one corpus, compared with limits."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from batchstat._version import __version__
from batchstat.calibration.calibration import Calibration
from batchstat.documents.comparison import report_document
from batchstat.errors import InputError, OptionError
from batchstat.gate.base import Base, load_base
from batchstat.gate.limits import DEFAULT_CHECK, Limit, in_force, read_limits
from batchstat.gate.outcome import Check, CheckedReport, Outcome
from batchstat.gate.paths import value_at
from batchstat.gate.remedies import Written, with_remedies
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import DEFAULT_CURRENT, Settings, SettingsOptions
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.compare.compare import simulate
from batchstat.simulation.compare.named_rows import ParsedRow, Row
from batchstat.simulation.device import Device, as_device
from batchstat.storage.addresses import as_path
from batchstat.trainers.preflight.changes import CurrentTraining
from batchstat.trainers.preflight.named import trained_today


@checks_keywords(Settings)
def check(
    profile: Profile | None,
    limits: Mapping[str, Any] | Sequence[Limit],
    *,
    current: Row | Path | CurrentTraining = DEFAULT_CURRENT,
    base: Base | str | Path | None = None,
    name: str = DEFAULT_CHECK,
    written: Written | None = None,
    ignore_keys: Sequence[str] = (),
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Check:
    """Compare the numbers of what is trained on a whole corpus with limits.

    An exceeded limit has a remedy where a change of the training that `compare` finds keeps it.

    Args:
        profile: the corpus; None for the one that a trainer's configuration names, and for a
            recording.
        limits: as in the configuration, such as `{"max-padding": "5%"}`.
        current: what is trained: `name` or `name:key=value,key=value`; a name and batches of record
            numbers; a trainer's configuration, such as `sft.yaml`; or the folder of a recording.
        base: a file of `batchstat check --format json=FILE` with a check of this name, which the
            numbers are compared with. Without limits, padding must then not rise.
        name: the name of the check.
        written: returns a change, and the settings or keys that it sets, as the user writes it in
            two parts: what changes in the training, and what in the check to match it; by default
            `key=value`.
        ignore_keys: keys of the trainer's configuration that change no data or batches, beside
            those that are known.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it, for
            limits on `strategy.seconds`, `strategy.peak_bytes` and `strategy.cost`.
        cost_per_hour: of one such device.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Example:
        >>> profile = batchstat.profile("sample_data/corpus.txt")
        >>> checked = batchstat.check(profile, {"max-padding": "1%"})
        >>> [outcome.limit.name for outcome in checked.failures]
        ['max-padding']

    Raises:
        OptionError: no limits, or an invalid one; a trainer's configuration with keys that nobody
            knows, or a wrong strategy.
        InputError: the numbers do not cover the whole corpus, or the base or the calibration cannot
            be used.
    """
    if isinstance(limits, Mapping):
        limits = in_force(read_limits(limits, "limits"), has_base=base is not None)
    require_limits(limits, has_base=base is not None, subject=f"check {name!r} has")
    trained = trained_today(current, profile, settings, ignore_keys)
    if isinstance(base, str | Path):
        base = load_base(as_path(base), name)
    # Unknown keys may change batches, and a check that passes must be right.
    if trained.trainer is not None and (setup := trained.trainer.setup).assumed:
        keys = ", ".join(json.dumps(key) for key in setup.assumed)
        raise OptionError(
            f"{setup.path.as_posix()}: unknown keys {keys}",
            f"if they change no data or batches, set ignore-keys = [{keys}]; to be sure, run "
            "batchstat run --dry-run and the command that trains",
        )
    device = as_device(calibration, cost_per_hour, settings=trained.settings)
    # Without a row, nobody named a current setup.
    row = StrategySpec.of(DEFAULT_CURRENT) if trained.row is None else trained.row
    now = measure_report(trained.profile, row, trained.settings, limits, device)
    outcomes, describe = judge(now.report, limits, base), written or _describe_for_library
    return Check(
        name=name,
        strategy=now.strategy,
        report=now.report,
        since=None if base is None else base.since(now.strategy, now.report, __version__),
        outcomes=tuple(with_remedies(now, outcomes, describe, trained)),
        warnings=(*trained.warnings, *now.warnings),
    )


def measure_report(
    profile: Profile,
    current: ParsedRow,
    settings: Settings,
    limits: Iterable[Limit],
    device: Device | None = None,
) -> CheckedReport:
    """Return the numbers of a check of a whole corpus. Raises OptionError or InputError."""
    corpus = profile.corpus
    if corpus.failed:
        raise InputError(
            f"the profile is partial ({corpus.failed[0]})",
            "fix that, and rerun batchstat profile without --allow-partial",
        )
    # Limits cover bad records: one on all of them, or one on each kind that occurs.
    limited = {limit.path for limit in limits if limit.bound == "max"}
    kinds = {f"corpus.skipped.{reason}" for reason in corpus.faulty}
    if corpus.unreadable and not ("corpus.unreadable" in limited or kinds <= limited):
        raise InputError(
            f"{corpus.unreadable:,} record{'s' * (corpus.unreadable != 1)} could not be read, so "
            "the numbers would not cover the whole corpus",
            "fix the corpus, or set corpus.unreadable = {max = N} in the limits",
        )
    simulation = simulate(profile, current, settings, device)
    report = report_document(profile, simulation)
    return CheckedReport(profile, current, settings, report, simulation.warnings, device)


def require_limits(limits: Iterable[Limit], has_base: bool, subject: str) -> None:
    """Raise OptionError for a check without limits, or a difference without a base."""
    if not limits:
        raise OptionError(
            f"{subject} no limits to check",
            "pass --max-padding 5% or --base, or run "
            "batchstat init to write limits to the configuration",
        )
    for limit in limits:
        if limit.is_difference and not has_base:
            raise OptionError(
                f"{limit.name} (set in {limit.origin}) limits a difference, but there is no base",
                "pass --base",
            )


def judge(
    report: Mapping[str, Any], limits: Iterable[Limit], base: Base | None = None
) -> tuple[Outcome, ...]:
    """Compare each limit with its numbers. Raises InputError: the report or the base lacks one."""
    outcomes = []
    for limit in limits:
        try:
            value = value_at(report, limit.path)
        except InputError as error:
            raise error.at(limit.name) from None
        before = None if base is None else base.number(limit.path)
        if limit.is_difference and before is None:
            assert base is not None
            if base.is_new:  # the first check of its kind has nothing to differ from
                continue
            if base.check is None:  # a check that passes must be right
                raise InputError(f"{limit.name} differs from nothing: at {base.name}, {base.why}")
            raise InputError(f"{base.name} has no {limit.path}, which {limit.name} is held against")
        outcomes.append(Outcome(limit=limit, value=value, before=before))
    return tuple(outcomes)


def _describe_for_library(change: Change, settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return how a caller changes the training, and, if need be, the check to match it."""
    changes = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    line = change.line.partition("  #")[0]  # without the note after it
    if not line:  # no keys of a trainer's configuration
        return f"training with {changes}", "check with the same"
    # The check reads a trainer's configuration, but not the user's code: where the line goes there,
    # `current` names a strategy that stands for it.
    return line, f"check with {changes}" if "current" in settings else ""
