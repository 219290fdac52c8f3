"""`balance`: samplers that balance classes, for what is trained today."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.parameters import checks_keywords, listed
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.balance.balance import (
    DEFAULT_EPOCHS,
    DEFAULT_SAMPLERS,
    DEFAULT_STRATEGY,
    balance_report,
)
from batchstat.simulation.balance.report import BalanceReport
from batchstat.simulation.device import as_device
from batchstat.trainers.preflight.changes import CurrentTraining
from batchstat.trainers.preflight.named import trained_today


@checks_keywords(Settings)
def balance(
    lengths: Profile | npt.ArrayLike | None = None,
    *,
    labels: Iterable[object] | None = None,
    samplers: Sequence[str] | str = DEFAULT_SAMPLERS,
    strategy: str | StrategySpec | None = None,
    current: str | StrategySpec | Path | CurrentTraining | None = None,
    epochs: int = DEFAULT_EPOCHS,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> BalanceReport:
    """Compare class-balancing samplers side by side on the same corpus.

    Args:
        lengths: a `Profile` with labels, or (n,) tokens per sample; beside a trainer's
            configuration, by default the corpus that it names.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        samplers: the rows, each `name` or `name:key=value,key=value`.
        strategy: the strategy that batches the drawn samples; by default the current setup's, else
            `token-budget`.
        current: what is trained: a strategy, or a trainer's configuration, such as `sft.yaml`,
            whose samples and settings are then used.
        epochs: number of epochs over which coverage is tracked.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it:
            compute is then time.
        cost_per_hour: of one such device.
        settings: the fields of `batchstat.Settings`, except `sampler`.

    Example:
        >>> report = batchstat.balance([5] * 100, labels=["spam"] * 10 + ["ham"] * 90)
        >>> report.class_ratio
        9.0
        >>> report.recommended.spec
        'weighted-random'

    Raises:
        OptionError: a setting, sampler or parameter that is wrong by itself.
        InputError: no labels, classes that cannot be drawn as requested, no samples left, or a
            calibration that cannot be used.
    """
    today = trained_today(current, lengths, settings)
    report = balance_report(
        resolve_inputs(today.lengths, labels, today.settings.keep_labels),
        today.settings,
        samplers=(samplers,) if isinstance(samplers, str) else listed("samplers", samplers),
        strategy=(
            today.strategy or StrategySpec.of(DEFAULT_STRATEGY)
            if strategy is None
            else StrategySpec.parse(strategy)
        ),
        epochs=epochs,
        device=as_device(calibration, cost_per_hour, settings=today.settings),
    )
    return replace(report, warnings=(*today.warnings, *report.warnings))
