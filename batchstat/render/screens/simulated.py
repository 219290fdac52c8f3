"""What screens say of simulations: settings, the device, sizes of batches, idle ranks."""

from collections.abc import Iterator

from batchstat.documents.device import calibrated
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.render.command_lines import non_defaults
from batchstat.render.device import device_facts, margin, peak_of
from batchstat.render.screens.layout import Line
from batchstat.render.text import class_name, one_line, span
from batchstat.simulation.device import Device
from batchstat.simulation.results import Simulation, StrategyResult
from batchstat.words import counted


def basis_line(
    basis: ResolvedSettings,
    with_defaults: bool = True,
    order: str = "",
    with_overflow: bool = True,
    with_max_length: bool = True,
) -> str:
    """Return the line on the settings that hold for a table."""
    not_default = non_defaults(basis, Settings).keys()
    seed = "" if basis.order == "file" else f", seed {basis.seed}"
    epoch = f", epoch {basis.epoch}" if basis.epoch else ""
    with_order = with_defaults or order or not not_default.isdisjoint({"order", "seed", "epoch"})
    overflow = f" ({basis.overflow})" if with_overflow else ""
    accumulation = basis.gradient_accumulation_steps
    ranks = f"{basis.world_size:,} ranks, distribute {basis.distribute}"
    if basis.distribute == "balanced" and basis.balance_by != "length":
        ranks += f" by {basis.balance_by} tokens"
    # One rank shares nothing. Of several, the remainder is shown unless it is `repeat`.
    if basis.world_size == 1:
        ranks = "1 rank"
    elif basis.remainder != "repeat":
        ranks += f", remainder {basis.remainder}"
    # A long list of labels would fill the line: the first 8 stand for it.
    labels = ", ".join(class_name(label) for label in basis.keep_labels[:8])
    # Each part, and when it is shown; without a `max_samples`, the 0 is not.
    parts = (
        (f"at most {basis.tokens_per_batch:,} tokens per batch", True),
        (f"max_length {basis.max_length:,}{overflow}", with_max_length),
        (f"batch_size {basis.batch_size:,}", with_defaults),
        (f"read_ahead {basis.read_ahead:,}", with_defaults or "read_ahead" in not_default),
        (order or f"order {basis.order}{seed}{epoch}", with_order),
        (ranks, with_defaults or "world_size" in not_default),
        (f"gradient_accumulation_steps {accumulation}", accumulation > 1),
        (f"wait {basis.wait}", basis.world_size > 1 and accumulation > 1),
        (f"loss {basis.loss}", basis.loss is not None),
        (f"widths multiples of {basis.pad_to_multiple_of}", "pad_to_multiple_of" in not_default),
        (f"at most {basis.max_samples or 0:,} samples per batch", basis.max_samples),
        ("drop_last", basis.drop_last),
        (f"sampler {one_line(basis.sampler)}", "sampler" in not_default),
        (f"only {labels}", labels),
    )
    return " · ".join(text for text, condition in parts if condition)


def device_lines(device: Device | None, basis: ResolvedSettings) -> Iterator[Line]:
    """Yield the lines on a calibrated device; none without one."""
    facts = calibrated(device, basis.widest)
    if facts is None:
        return
    # A calibration measures one device alone.
    needs_note = basis.world_size > 1 and device is not None and device.is_timed
    for word, text in device_facts(facts, basis.widest).items():
        is_noted = needs_note and word == "device"
        note = "; communication between ranks is not in the times" if is_noted else ""
        yield Line(word, text + note)


def largest_batch(simulation: Simulation) -> str:
    """Return the largest batch, its step, and on a calibrated device its memory."""
    row, device = simulation.row, simulation.device
    largest_step = f"in step {row.counts.largest_step:,} of {row.counts.steps:,}"
    if row.counts.largest_step > row.counts.steps:
        largest_step = "in no step"
    if row.counts.total_tokens == row.counts.batches * row.counts.max_batch_tokens:
        largest_step = "in every step"
    text = f"largest batch {counted(row.counts.max_batch_tokens, 'token')}, {largest_step}"
    peak = peak_of(row.on_device, row.counts.peak_bytes)
    if not peak or device is None:
        return text
    does_not_fit = ", which does not fit" if row.on_device.fits_memory is False else ""
    return f"{text}, {peak}{margin(device.memory_residual)} at the peak{does_not_fit}"


def batch_size(row: StrategyResult) -> str:
    """Return the samples of a batch, such as "3-17"; of a fixed size, that of all but the last."""
    fewest, largest = row.counts.min_samples_per_batch, row.counts.max_samples_per_batch
    size: int | None = row.params.get("batch_size")
    if size is not None and largest <= size:
        return f"{size:,}"
    return span(fewest, largest)


def rank_idle(row: StrategyResult) -> float:
    """Return the share of time that ranks wait; by tokens where times are not known."""
    by_time = row.on_device.rank_idle_time
    return row.counts.rank_idle if by_time is None else by_time
