"""What would help, in words: how much faster, and what to change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import RenderableType

from batchstat.documents.preflight import SavedTime
from batchstat.planning.settings import ResolvedSettings
from batchstat.render.device import EXTRAPOLATED, duration, gib, margin, time_of
from batchstat.render.screens.layout import Line, Pasted
from batchstat.render.screens.losses import loses, repeats
from batchstat.render.screens.simulated import batch_size
from batchstat.render.text import percent
from batchstat.simulation.compare.changes import LEAST_SAVED, Change, Changes, Keeps, keeps_batches
from batchstat.simulation.device import Device
from batchstat.words import counted

_NOTICED_FACTOR = 0.05  # a learning rate that scales by less than this from 1 stays as it is
_MUCH_SMALLER = 0.5
"""Batches of less than this times today's tokens: what each takes besides is no longer little."""
_NOTICED_PEAK = 1.1  # a largest batch of more than this times today's is a cost of a change


@dataclass(frozen=True)
class Advisor:
    """Says what would help, at the end of a screen: the best change, and up to two others."""

    changes: Changes
    basis: ResolvedSettings
    device: Device | None  # the calibrated device that trains; None without one
    command: Callable[[Change], str]  # returns the line to paste for a change
    saved: SavedTime | None = None  # of the first change, by the times of a recorded run

    def lines(self) -> Iterator[RenderableType]:
        """Yield the result, the star and the fastest change with a line to paste, then packing."""
        changes = self.changes
        yield Line("result", self._result())
        if self.saved is not None and self.saved.share < LEAST_SAVED:
            return
        advised = changes.advised
        if advised is not None:
            trade_off = _trade_off(advised) + self._smaller_batches(advised)
            yield Line("change", f"{advised.row.label}: {trade_off}")
            yield from self._pasted(advised)
            # A change that sets something beside taking padding out: what the latter gives alone.
            for alone in changes.ranked if advised.keys else ():
                if not alone.keys and alone.keys is not None:
                    padding = percent(alone.row.counts.padding_ratio)
                    gain = f"{padding} padding, {self.speed_up(alone)}"
                    yield Line("", f"Without that padding, and nothing else changed: {gain}.")
        for other in (changes.fastest, changes.in_loader):
            if other is not None and other is not advised:
                gain = f"{self.speed_up(other)} with {_trade_off(other)}"
                yield Line("or", f"{other.row.label}: {gain}")
                yield from self._pasted(other)
        # Without a setup that fits, what packing would give is beside the point.
        if changes.packed is not None and changes.best is not None:
            packed = changes.packed
            # A line to paste may end in a comment, which is no part of the name.
            change_name = packed.line.partition("  #")[0] or packed.row.label
            gain = self.speed_up(packed) + (" without that padding" if packed.repair else "")
            yield Line("packing", f"{change_name}: {gain}, if attention keeps samples apart")

    def speed_up(self, change: Change) -> str:
        """Return how many times faster it is, with its uncertainty if timed: "1.32x ±0.04"."""
        residual = self.device.time_residual if self.device and self.device.is_timed else None
        # A ratio of two times, each off by the residual, is off by √2 of it.
        interval = "" if residual is None else f" ±{change.speed_up * residual * 2**0.5:.2f}"
        return f"{change.speed_up:.2f}x{interval}"

    def _smaller_batches(self, change: Change) -> str:
        """Return what smaller batches may cost, where no calibration says what each takes."""
        mean, before = (row.counts.mean_batch_tokens for row in (change.row, change.current))
        is_timed = self.device is not None and self.device.is_timed
        if is_timed or not change.is_regrouped or mean >= _MUCH_SMALLER * before:
            return ""
        return (
            f", batches of {mean:,.0f} instead of {before:,.0f} tokens on average: calibrate, for "
            "what each takes whatever it holds"
        )

    def _pasted(self, change: Change) -> Iterator[RenderableType]:
        """Yield the line to paste, or why there is none where a user would look for one."""
        if line := self.command(change):
            yield Pasted("", line)
        elif change.apply:
            yield Line("", "This does it, where its dry run finds the same gradient:")
            yield Pasted("", change.apply)
        elif change.needs_loader:
            first = f"First {change.repair}. Then your" if change.repair else "Your"
            yield Line("", f"{first} loader {_in_loader(change)}: no line here makes it do that.")
        elif change.is_regrouped and change.current.request.strategy.is_given:
            # A recording has lengths: no command knows which samples of a data set they are of.
            yield Line(
                "",
                "No command makes these batches, since today's were made elsewhere: in Python, "
                "compare(lengths, current=(name, batches)).sampler() does, of batches of sample "
                "numbers.",
            )

    def _result(self) -> str:
        """Return the result in a sentence: the change, that none helps, or what would fit."""
        changes, current = self.changes, self.changes.current
        if not current.counts.steps:
            return "No optimizer step is taken: nothing is trained that could be faster."
        if changes.advised is not None:
            return self._compared(changes.advised) + self._ruled_out()
        # No change helps enough.
        if changes.current_fits and keeps_batches(current):
            return (
                f"Keep {current.label}: its loss may compare the rows of a batch, so that the same "
                "samples have to share a batch."
            )
        if changes.current_fits:
            measure = "time" if self.device is not None and self.device.is_timed else "compute"
            return (
                f"Keep {current.label}: no other way of batching that fits, and loses and repeats "
                f"no more, saves {percent(LEAST_SAVED, 0)} of its {measure}."
                f"{self._ruled_out()}"
            )
        # Nothing fits: the memory of the device is too small, or else the budget is.
        if current.on_device.fits_memory is False:
            return f"no strategy in the table fits the device{self._to_fit()}"
        return (
            f"no strategy in the table keeps its batches within {self._budget}: set "
            f"--tokens-per-batch {current.counts.reducible_peak}, which {current.label} needs"
        )

    def _compared(self, star: Change) -> str:
        """Return how much faster the first change is, and what it pads, repeats or makes fit."""
        row, current = star.row, star.current
        # The end of the sentence: why it is faster, what it repeats less, what does not fit.
        before, after = (percent(each.counts.padding_ratio) for each in (current, row))
        reasons = f"{after} padding" + (f" instead of {before}" if before != after else "")
        # Where the change pads a larger share, padding is no reason: it computes fewer tokens.
        if row.counts.padding_ratio > current.counts.padding_ratio:
            computed, computed_before = row.counts.total_tokens, current.counts.total_tokens
            reasons = f"{computed:,} tokens computed instead of {computed_before:,}"
        repeated, repeated_before = row.counts.repeated_share, current.counts.repeated_share
        if repeated_before - repeated >= LEAST_SAVED:
            reasons += f", and {percent(repeated)} of the samples repeated instead of "
            reasons += percent(repeated_before)
        if not self.changes.current_fits:
            reasons += f"; the batches of {current.label} do not fit"
        if (saved := self.saved) is not None:
            times = "by the times of this run's own batches"
            if saved.share < LEAST_SAVED:
                reasons = f"{row.label} saves less than {percent(LEAST_SAVED, 0)} of an epoch"
                return f"Keep {current.label}: {reasons}, {times}."
            sign = EXTRAPOLATED if saved.is_extrapolated else ""
            return (
                f"An epoch with {row.label} takes {sign}{duration(saved.after)}"
                f"{margin(saved.residual)} instead of {duration(saved.before)} with "
                f"{current.label}, {saved.before / saved.after:.2f}x faster {times}: {reasons}."
            )
        if self.device is not None and self.device.is_timed:
            time, time_before = time_of(row.on_device), time_of(current.on_device)
            return (
                f"An epoch with {row.label} takes {time}{margin(self.device.time_residual)} "
                f"instead of {time_before} with {current.label}, {self.speed_up(star)} faster: "
                f"{reasons}."
            )
        return (
            f"An epoch with {row.label} is an estimated {self.speed_up(star)} faster than with "
            f"{current.label}: {reasons}."
        )

    @property
    def _budget(self) -> str:
        return f"tokens_per_batch={self.basis.tokens_per_batch:,}"

    def _to_fit(self) -> str:
        """Return, as the end of a sentence, what to change so that batches fit the device."""
        fitting = None if self.device is None else self.device.tokens_that_fit(self.basis.widest)
        # How much fits is not known.
        if fitting is None:
            return ": lower --tokens-per-batch"
        # Weights and optimizer alone need more memory than there is.
        if not fitting:
            return ", nor does any other batch"
        # Not even one row of the longest samples fits.
        if fitting < self.basis.widest:
            return ": lower --max-length"
        return f": set --tokens-per-batch {fitting} to fit all of them"

    def _ruled_out(self) -> str:
        """Return why the row with the least compute may not be recommended; or nothing."""
        row = self.changes.ruled_out
        if row is None or keeps_batches(self.changes.current):
            return ""
        counts, current = row.counts, self.changes.current
        if not Change(row=row, current=current).has_place:
            reason = f"{current.name} takes no sampler"
        elif counts.reducible_peak > self.basis.tokens_per_batch:
            exceeding = counts.over_budget_batches
            # A strategy with a budget of its own counts only batches above its own: maybe none.
            subject = f"{exceeding:,} of its {counts.batches:,} batches" if exceeding else "batches"
            largest = f"the largest has {counts.max_batch_tokens:,} tokens"
            reason = f"{subject} exceed {self._budget} ({largest})"
        elif row.on_device.fits_memory is False:
            # The 0 is never shown: of a peak that does not fit, the bytes are known.
            reason = f"its peak of {gib(counts.peak_bytes or 0)} does not fit the device"
            reason += self._to_fit()
        else:
            # It fits, but loses or repeats more of the corpus than the current setup.
            now = current.counts
            reason = "; ".join([*loses(counts, now), *repeats(counts, now)])
        return f" {row.label} would come first, but {reason}."


def _in_loader(change: Change) -> str:
    """Return what a loader would have to do for a change that no line makes."""
    if change.is_regrouped:
        return "has to sort the samples of each step, and cut them into its batches"
    key, size = change.row.size  # such as ("tokens_per_batch", 4096)
    batches = "batches" if key == "batch_size" else f"batches of at most {size:,} tokens"
    return f"has to make {batches} of samples of similar lengths"


def _trade_off(change: Change) -> str:
    """Return what a change does to the training, in words; only what changes is named."""
    row, current = change.row, change.current
    words = [*_steps_and_batch_size(change)]
    learning_rate = change.learning_rate
    if abs(learning_rate.square_root - 1) >= _NOTICED_FACTOR:
        square_root = f"x{learning_rate.square_root:.2f} (square root)"
        words.append(f"learning rate {square_root} or x{learning_rate.linear:.2f} (linear)")
    # Where every step keeps its samples, shuffling has not changed, whatever its name.
    keeps_steps = change.is_regrouped or change.keeps is Keeps.EVERY_STEP
    if row.shuffling != current.shuffling and not keeps_steps:
        words.append(_SHUFFLING[row.shuffling])
    if row.distribute == "balanced" != current.distribute:
        words.append("steps hold samples of similar length")
    largest_batch, batch_before = row.counts.max_batch_tokens, current.counts.max_batch_tokens
    if largest_batch > _NOTICED_PEAK * batch_before:
        words.append(f"largest batch {largest_batch:,} tokens instead of {batch_before:,}")
    words += loses(row.counts, current.counts)
    if row.packs_rows and not current.packs_rows:
        words.append("needs varlen attention")
    return ", ".join(words)


def _steps_and_batch_size(change: Change) -> Iterator[str]:
    """Yield the parts of a trade-off on the number of steps and the samples per batch."""
    row, current = change.row, change.current
    steps, old_steps = row.counts.begun_steps, current.counts.begun_steps
    size = batch_size(row)
    if change.is_regrouped:
        yield "the same samples in every step"
        if change.keeps_gradient:
            yield "the same learning rate"
            yield "the same gradient (up to dropout)"
        else:
            yield "every token weighs 1: not your current gradient"
    elif change.keeps is Keeps.EVERY_STEP:
        yield "the same samples in every step"
        if row.counts.max_batch_tokens <= current.counts.max_batch_tokens:
            yield "no more memory"
    elif steps == old_steps and size == batch_size(current):
        yield "the same steps and batch size"
    else:
        yield counted(steps, "step") + ("" if steps == old_steps else f" instead of {old_steps:,}")
        yield f"{size} samples per batch"


_SHUFFLING = {
    "full": "full shuffling",
    "partial": "batches of somewhat similar lengths",
    "sorted": "batches of similar lengths: watch the loss",
    "blocks": "shuffled in blocks",
    "none": "the order of the corpus",
}
"""What a trade-off says of `StrategyResult.shuffling`."""
