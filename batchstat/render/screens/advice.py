"""What `compare` says below its table: how much faster, and what to change."""

from collections.abc import Callable, Iterator

from rich.console import RenderableType

from batchstat.errors import counted
from batchstat.render.device import gib, margin, time_of
from batchstat.render.screens.layout import Line, Pasted, batch_size
from batchstat.render.text import batches, percent
from batchstat.simulation.comparison import Comparison
from batchstat.simulation.learning_rate import LearningRateHint
from batchstat.simulation.results import StrategyResult

_NOTICED_FACTOR = 0.05
"""A learning rate that scales by less than this from 1 stays as it is."""

_ABOUT_EQUAL = 1.1
"""Speed-ups below this are within the error of an estimate."""


def advice(
    comparison: Comparison, command: Callable[[StrategyResult], str]
) -> Iterator[RenderableType]:
    """Yield the result in a sentence, then at most two recommendations, each with its trade-off and
    a line to paste, and what packing would give.

    Args:
        comparison: the rows.
        command: returns what a trainer is to be passed for a row's strategy, or the command that
            uses it with the same settings; empty if there is neither.
    """
    choice, current = comparison.choice, comparison.current
    yield Line("result", _result(comparison))
    if choice.best is not None and choice.best is not current:
        yield Line("best", f"{choice.best.label}: {_trade_off(choice.best, current)}")
        yield from _pasted("", command(choice.best))
    elif choice.best is not None and len(comparison.strategies) == 1:
        yield from _pasted("use", command(choice.best))
    if choice.smaller_change is not None:
        row = choice.smaller_change
        faster = f"{comparison.speed_up(row):.2f}x"
        yield Line("or", f"{row.label}: {faster} with {_trade_off(row, current)}")
        yield from _pasted("", command(row))
    if choice.best is not None and choice.packed is not None:
        row = choice.packed
        yield Line(
            "packing",
            f"{row.label}: {comparison.speed_up(row):.2f}x, if attention keeps samples apart",
        )


def _pasted(word: str, line: str) -> Iterator[Pasted]:
    if line:
        yield Pasted(word, line)


def _result(comparison: Comparison) -> str:
    choice, current, best = comparison.choice, comparison.current, comparison.best
    padding = percent(best.counts.padding_ratio)
    if choice.best is None and all(
        row.on_device.fits_memory is False for row in comparison.strategies
    ):
        return f"no strategy in the table fits the device{_to_fit(comparison)}"
    if choice.best is None:
        needed = min(row.counts.reducible_peak for row in comparison.strategies)
        return (
            f"no strategy in the table keeps its batches within {_budget(comparison)}: set "
            f"--tokens-per-batch {needed} to fit one"
        )
    if len(comparison.strategies) == 1:
        return f"{best.label}: {padding} padding in {batches(best.counts.batches)}."
    if best is current:
        text = (
            f"Keep {current.label}: no other row saves over 10% of its {_measure(comparison)}, or "
            f"has fewer steps for the same {_measure(comparison)}."
        )
    else:
        text = _compared(comparison, best)
    smaller = choice.smaller_change
    if smaller is not None and comparison.speed_up(smaller) > comparison.speed_up(best):
        text += " Rows within 10% of each other count as equal, and then the fewest steps win."
    return text + _ruled_out(comparison)


def _to_fit(comparison: Comparison) -> str:
    """Return the budget that fits the calibrated device, after what does not."""
    most = comparison.tokens_that_fit
    if most is None:
        return ": lower --tokens-per-batch"
    if not most:
        return ", nor does any other batch"
    if most < comparison.basis.widest:
        return ": lower --max-length"
    return f": set --tokens-per-batch {most} to fit all of them"


def _compared(comparison: Comparison, best: StrategyResult) -> str:
    """Return how much less compute the best row takes than the current setup."""
    current, factor = comparison.current, comparison.speed_up(best)
    before, after = (percent(row.counts.padding_ratio) for row in (current, best))
    if 1 / _ABOUT_EQUAL < factor < _ABOUT_EQUAL:
        return (
            f"An epoch with {best.label} takes about as much {_measure(comparison)} as with "
            f"{current.label} ({factor:.2f}x), in {_steps(best, current)}."
        )
    padding = f"{after} padding" + (f" instead of {before}" if before != after else "")
    if comparison.device is not None and comparison.is_timed:
        times = [time_of(row.on_device) for row in (best, current)]
        error = margin(comparison.device.time_residual)
        return (
            f"An epoch with {best.label} takes {times[0]}{error} instead of {times[1]} with "
            f"{current.label}, {factor:.2f}x faster: {padding}."
        )
    return (
        f"An epoch with {best.label} is an estimated {factor:.2f}x faster than with "
        f"{current.label}: {padding}."
    )


def _measure(comparison: Comparison) -> str:
    return "time" if comparison.is_timed else "compute"


def _budget(comparison: Comparison) -> str:
    return f"tokens_per_batch={comparison.basis.tokens_per_batch:,}"


def _steps(row: StrategyResult, current: StrategyResult) -> str:
    steps, before = row.counts.steps, current.counts.steps
    return f"{counted(steps, 'step')}" + ("" if steps == before else f" instead of {before:,}")


def _ruled_out(comparison: Comparison) -> str:
    """Return why a row with less compute than the best one is not recommended."""
    row, budget = comparison.choice.ruled_out, comparison.basis.tokens_per_batch
    if row is None:
        return ""
    counts = row.counts
    if counts.reducible_peak > budget:
        over = counts.over_budget_batches
        which = f"{over:,} of its {counts.batches:,} batches exceed" if over else "batches exceed"
        why = f"{which} {_budget(comparison)} (the largest has {counts.max_batch_tokens:,} tokens)"
    elif row.on_device.fits_memory is False:
        why = f"its peak of {gib(counts.peak_bytes or 0)} does not fit the device"
        why += _to_fit(comparison)
    else:
        why = f"it loses {percent(counts.lost_ratio)} of the tokens"
    return f" {row.label} would come first, but {why}."


def _trade_off(row: StrategyResult, current: StrategyResult) -> str:
    size, before = batch_size(row), batch_size(current)
    if row.counts.steps == current.counts.steps and size == before:
        words = ["the same steps and batch size"]
    else:
        words = [_steps(row, current), f"{size} samples per batch"]
    hint = LearningRateHint.of(current.counts, row.counts)
    if abs(hint.square_root - 1) >= _NOTICED_FACTOR:
        words.append(
            f"learning rate x{hint.square_root:.2f} (square root) or x{hint.linear:.2f} (linear)"
        )
    if row.shuffling != current.shuffling:
        words.append(_SHUFFLING[row.shuffling])
    if row.packs_rows:
        words.append("needs varlen attention")
    return ", ".join(words)


_SHUFFLING = {
    "full": "full shuffling",
    "partial": "batches of somewhat similar lengths",
    "sorted": "batches of similar lengths: watch the loss",
    "blocks": "shuffled in blocks",
    "none": "the order of the corpus",
}
"""What a trade-off says of `StrategyResult.shuffling`."""
