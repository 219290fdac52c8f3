"""`find_buckets`: bucket edges, for what is trained today."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, as_model
from batchstat.parameters import checks_keywords, whole_number
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.profile import Profile
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.buckets.search import decide_cost, search_buckets
from batchstat.simulation.device import as_device
from batchstat.trainers.preflight.named import trained_today


@checks_keywords(Settings)
def find_buckets(
    lengths: Profile | npt.ArrayLike | None = None,
    *,
    labels: Iterable[object] | None = None,
    buckets: int | None = None,
    min_bucket_samples: int = 1,
    cost: str | None = None,
    model: CostModel | str | None = None,
    calibration: Calibration | str | Path | None = None,
    epochs: int = 1,
    current: str | Path | None = None,
    **settings: Unpack[SettingsOptions],
) -> BucketReport:
    """Find the edges of `buckets` buckets with the least padding, and those of every other rule.

    With a calibration, the edges with the least time are found for each number of buckets, and each
    of these results is simulated as `compare` does, short batches kept: the times are those of
    `compare`, for any ranks, order and sampler. No edges take less time on one rank with one batch
    per step, unless a sampler draws samples or `drop_last` drops a batch; else they are close to
    the least.

    Args:
        lengths: a `Profile`, or (n,) tokens per sample; beside a trainer's configuration, by
            default the corpus that it names.
        labels: (n,) the class of each sample, if the settings name classes.
        buckets: number of buckets; 8 unless set, or as many as there are distinct widths. With a
            calibration, the number with the least time, among 1 to 16.
        min_bucket_samples: fewest samples per bucket; smaller buckets of other rules are merged
            with the next.
        cost: `linear` for padding, `quadratic` for attention, `model` for a transformer's cost,
            `time` for the time by a calibration; unless set, `time` with a calibration, `model`
            with a model, else `linear`.
        model: the transformer's shape, or what `load_model` takes, such as `llama-3-8b`.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it.
        epochs: number of epochs after which training ends: shapes are new in the first.
        current: what is trained: a strategy, or a trainer's configuration, such as `sft.yaml`,
            whose samples and settings are then used.
        settings: the fields of `batchstat.Settings`. Edges are multiples of `pad_to_multiple_of`,
            and computed from all samples, so that they hold for every epoch.

    Example:
        >>> batchstat.find_buckets([3, 4, 4, 50, 55, 60], buckets=2).chosen.edges
        (4, 60)

    Raises:
        OptionError: a setting that is wrong by itself.
        InputError: more buckets than distinct lengths, too few samples for `min_bucket_samples`,
            the settings leave no batch, or a calibration that cannot be used or has no time.
    """
    if buckets is not None:
        whole_number("buckets", buckets)
    whole_number("min_bucket_samples", min_bucket_samples)
    whole_number("epochs", epochs)
    cost = decide_cost(cost, model, calibration)
    today = trained_today(current, lengths, settings)
    report = search_buckets(
        resolve_inputs(today.lengths, labels, today.settings.keep_labels),
        today.settings,
        buckets=buckets,
        min_bucket_samples=min_bucket_samples,
        cost=cost,
        model=as_model(model),
        device=as_device(calibration, None, settings=today.settings),
        epochs=epochs,
    )
    return replace(report, warnings=(*today.warnings, *report.warnings))
