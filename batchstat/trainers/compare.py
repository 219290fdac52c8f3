"""`compare`: what is trained today beside other strategies, on the same epoch."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, as_model
from batchstat.parameters import checks_keywords
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.compare.compare import comparison_of
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.named_rows import Row
from batchstat.simulation.device import as_device
from batchstat.trainers.preflight.changes import CurrentTraining, changes_of_name
from batchstat.trainers.preflight.named import trained_today


@checks_keywords(Settings)
def compare(
    lengths: Profile | npt.ArrayLike | None = None,
    *,
    labels: Iterable[object] | None = None,
    strategies: Sequence[Row] | str | None = None,
    current: Row | Path | CurrentTraining | None = None,
    model: CostModel | str | None = None,
    seeds: int = 1,
    subsample: float | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> Comparison:
    """Compare batching strategies side by side on the same lengths.

    Args:
        lengths: a `Profile`, or (n,) tokens per sample; not beside a recording; beside a trainer's
            configuration, by default the corpus that it names.
        labels: (n,) the class of each sample, of any type, None for none; a profile has its own.
        strategies: the rows, each `name` or `name:key=value,key=value`; by default those of
            `default_strategies`. A parameter that is not given is taken from the settings. A
            framework's name, such as `fairseq`, is a strategy too, with the order and the
            distribution that belong to it. `("mine", batches)` is a row of your own batches: a
            sampler, or lists of record numbers, as `batchstat.measure` takes them.
        current: the setup that the others are compared to, written as a strategy, or a name and
            batches as in `strategies`; or a trainer's configuration, such as `sft.yaml`, or the
            folder of a recording, whose samples are then those of all rows. Its batch size sets the
            budget. By default the first row of `static`, else the first row.
        model: the transformer whose compute is estimated for each row: its shape, or what
            `load_model` takes, such as `llama-3-8b`.
        seeds: number of seeds to try, counting up from that of the settings; the rows show the
            first.
        subsample: estimate from this share of the corpus, drawn at random: all numbers describe the
            subsample, and each row has an interval for the padding ratio of the whole corpus.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it:
            compute is then time, and each row has its seconds and its peak memory.
        cost_per_hour: of one such device: each row has the cost of an epoch.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Example:
        >>> comparison = batchstat.compare([5, 90, 12, 100, 7, 8], batch_size=2)
        >>> comparison.best.label
        'bucketed'
        >>> round(comparison["bucketed"].counts.padding_ratio, 3)
        0.067

    Raises:
        OptionError: a setting, strategy or parameter that is wrong by itself.
        InputError: no samples, the settings leave none, or a calibration that cannot be used.
    """
    if isinstance(current, str) and not isinstance(strategies, str | None):
        # `current` may be the name of a row ("mine", batches): it stands for these batches.
        batches_by_name = {row[0]: row for row in strategies if isinstance(row, tuple)}
        current = batches_by_name.get(current, current)
    today = trained_today(current, lengths, settings)
    shape = as_model(model)
    if today.strategies is not None:
        # Batches of an encoder and a decoder are compared with no strategy: it would pad one side.
        strategies = today.strategies
    observed = None if today.trainer is None else today.trainer.observed
    inputs = resolve_inputs(today.lengths, labels, today.settings.keep_labels)
    device = as_device(calibration, cost_per_hour, model=shape, settings=today.settings)
    candidates = simulate_candidates(
        inputs,
        today.settings,
        strategies=(strategies,) if isinstance(strategies, str) else strategies,
        current=today.row,
        # Without a configuration, a strategy such as `hf-trainer` still tells the trainer.
        trainer=changes_of_name if today.trainer is None else today.trainer.changes,
        takes_sampler=today.takes_sampler,
        model=shape,
        device=device,
        seeds=seeds,
        subsample=subsample,
        with_batches=True,
    )
    run = None if observed is None else observed.run
    comparison = comparison_of(inputs, candidates, model=shape, device=device, seeds=seeds, run=run)
    return replace(comparison, warnings=(*today.warnings, *comparison.warnings))
