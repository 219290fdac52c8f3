"""`measure`: any batches, in the numbers of a comparison's row."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy.typing as npt

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import CostModel, as_model
from batchstat.errors import OptionError
from batchstat.parameters import checks_keywords, listed
from batchstat.planning.inputs import PlanInputs, resolve_inputs
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.planning.shares import make_shares
from batchstat.profiling.profile import Profile
from batchstat.recording.collated import collated_batches
from batchstat.recording.given_batches import NamedBatches
from batchstat.recording.sample_numbers import given_batches
from batchstat.simulation.compare.compare import simulate
from batchstat.simulation.device import as_device
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import make_row
from batchstat.storage.addresses import local_path


@checks_keywords(Settings)
def measure(
    batches: Iterable[Any] | str | Path | None = None,
    lengths: Profile | npt.ArrayLike | None = None,
    *,
    per_rank: Sequence[Iterable[Any]] | None = None,
    name: str = "measured",
    steps: int | None = None,
    pad_token_id: int | None = None,
    model: CostModel | str | None = None,
    calibration: Calibration | str | Path | None = None,
    cost_per_hour: float | None = None,
    **settings: Unpack[SettingsOptions],
) -> StrategyResult:
    """Return what batches compute, pad, repeat and never show: what a row of `compare` has.

    Args:
        batches: with `lengths`, of sample numbers: a sampler, a batch_sampler or nested lists; a
            row of several samples is a list of its own, and a sampler of single numbers is cut
            every `batch_size`. Without, collated ones: a DataLoader, or any iterable of dicts,
            tuples or token ids, of torch, NumPy or lists; or the folder of a recording. Ranks get
            them in turn.
        lengths: a `Profile`, whose records the numbers are, or (n,) tokens per sample.
        per_rank: the batches of each rank, instead of `batches`; of sample numbers.
        name: what they are called, for messages.
        steps: optimizer steps to take; by default all.
        pad_token_id: what pads collated batches where no mask, lengths or positions say so; a guess
            is made, and said in `row.reading`, where at least a quarter of the rows end in it.
        model: the transformer whose compute is estimated, as `compare` takes it.
        calibration: the device that trains, or the file that `batchstat calibrate` wrote of it.
        cost_per_hour: of one such device.
        settings: the fields of `batchstat.Settings`, such as `world_size=8`.

    Example:
        >>> row = batchstat.measure([[0, 3], [1, 2]], [5, 90, 12, 100])
        >>> row.counts.padding_tokens, row.counts.max_batch_tokens
        (173, 200)

    Raises:
        OptionError: a setting that is wrong by itself, or does not go with given batches.
        InputError: something else than batches of these samples, or batches whose padding is
            unknown.
    """
    if per_rank is not None:
        per_rank = listed("per_rank", per_rank)
        settings["world_size"] = len(per_rank)
    shape = as_model(model)
    if isinstance(batches, str | Path):  # the folder of a recording
        if lengths is not None or steps is not None or pad_token_id is not None:
            raise OptionError(
                f"{batches}: a recording is measured whole, with its own samples",
                "leave lengths, steps and pad_token_id out",
            )
        # Imported here, since it loads the readers of corpora, which given batches do not need.
        from batchstat.trainers.preflight.current import observe_folder, training_of_observed

        run = training_of_observed(observe_folder(local_path(batches)), settings)
        device = as_device(calibration, cost_per_hour, shape, run.settings)
        return simulate(run.samples.profile, run.row, run.settings, device, shape).row
    wanted = Settings(**settings)
    # The user's sampler has chosen and split samples already: nothing is left to draw or to split.
    if not (wanted.draws_all and wanted.overflow == "truncate"):
        raise OptionError(
            f"{name}: batches hold samples of the whole corpus",
            "remove sampler, keep_labels and an overflow other than truncate",
        )
    device = as_device(calibration, cost_per_hour, shape, wanted)
    reading_facts, most_batches = None, None
    if steps is not None:
        ranks_per_iterable = 1 if per_rank is not None else wanted.world_size
        most_batches = steps * wanted.gradient_accumulation_steps * ranks_per_iterable
    if lengths is None:  # collated batches bring their own lengths
        if per_rank is not None or batches is None:
            raise OptionError(f"{name}: per_rank needs the lengths of the samples", "pass lengths")
        collated = collated_batches(name, batches, limit=most_batches, pad_token_id=pad_token_id)
        user_batches, reading_facts = collated.batches, collated.facts
        inputs = PlanInputs(collated.samples, None)
    else:
        inputs = resolve_inputs(lengths)
        user_batches = given_batches(
            name,
            batches,
            inputs.samples,
            per_rank=per_rank,
            batch_size=wanted.batch_size,
            limit=most_batches,
            pad_to_multiple_of=wanted.pad_to_multiple_of,
        )
    # Without settings for them, batch size and budget are those of the batches themselves.
    basis = inputs.resolve(user_batches.as_current(wanted, inputs.samples.lengths))
    request = NamedBatches(name, user_batches).request(basis)
    shares = make_shares(inputs.samples, request.settings)
    row = make_row(request, shares, shape, device)
    return replace(row, reading=reading_facts)
