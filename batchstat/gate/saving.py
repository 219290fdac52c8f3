"""`save_baseline`: the numbers of a check, in a file that later ones are compared with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from batchstat.calibration.calibration import Calibration
from batchstat.gate.baseline import DEFAULT_NAME, Baseline, load_baselines, save_baselines
from batchstat.gate.check import measure_trained
from batchstat.gate.limits import Limit, read_limits
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import DEFAULT_CURRENT, Settings, SettingsOptions
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.named_rows import Row
from batchstat.storage.addresses import as_path
from batchstat.storage.results import encoded, write_file
from batchstat.trainers.preflight.named import trained_today


@checks_keywords(Settings)
def save_baseline(
    path: str | Path,
    profile: Profile | None = None,
    limits: Mapping[str, Any] | Sequence[Limit] = (),
    *,
    current: Row | Path = DEFAULT_CURRENT,
    name: str = DEFAULT_NAME,
    ignore_keys: Sequence[str] = (),
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> None:
    """Write the numbers of a check to a baseline file; those of other checks in it stay.

    Args:
        path: the file, for `batchstat.check(…, baseline=path)`.
        profile: the corpus, as `batchstat.check` takes it.
        limits: those of the check, whose numbers are stored too.
        current: what is trained, as `batchstat.check` takes it.
        name: the name of the check.
        ignore_keys: keys of the trainer's configuration that change no data or batches, beside
            those that are known.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it.
        cost_per_hour: of one such device.
        settings: the fields of `batchstat.Settings`, such as `tokens_per_batch=16384`.

    Example:
        >>> profile = batchstat.profile("sample_data/corpus.txt")
        >>> batchstat.save_baseline("padding.json", profile, batch_size=8)  # doctest: +SKIP

    Raises:
        OptionError: an invalid limit, setting or strategy.
        InputError: the numbers do not cover the whole corpus, or the file cannot be read or
            written.
    """
    if isinstance(limits, Mapping):
        # None is a limit that is off.
        limits = [limit for limit in read_limits(limits, "limits").values() if limit is not None]
    trained = trained_today(current, profile, settings, ignore_keys=ignore_keys)
    now = measure_trained(trained, limits, calibration, cost_per_hour)
    write_baselines(as_path(path), {name: now.as_baseline(limits)}, keep_others=True)


def write_baselines(path: Path, new: Mapping[str, Baseline], *, keep_others: bool) -> None:
    """Write baselines by the names of their checks.

    Args:
        path: the file.
        new: the baselines to write.
        keep_others: whether checks of a file that is there already stay in it.

    Raises:
        InputError: the file that is there cannot be read, or no file can be written.
    """
    before = load_baselines(path) if keep_others and path.exists() else {}
    text = save_baselines({**before, **new})
    write_file(path, encoded(text), remedy="name another with --baseline")
