"""The screen of `compare`: one table, what to use, and every other number with details."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.planning.strategies.regrouped import Regrouped
from batchstat.render.device import EXTRAPOLATED, TOO_LARGE, device_columns
from batchstat.render.screens.advice import Advisor
from batchstat.render.screens.comparison_details import comparison_details
from batchstat.render.screens.layout import STANDINGS, Fitting, Line, Pasted, Rows, folded
from batchstat.render.screens.losses import loss_lines
from batchstat.render.screens.simulated import basis_line, batch_size, device_lines, rank_idle
from batchstat.render.text import batches, percent, span
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted

_LONGEST_NAME = 28  # characters of a line of the name of a strategy


def comparison_screen(
    comparison: Comparison, command: Callable[[Change], str], details: bool = False
) -> RenderableType:
    """Return what `compare` prints: the settings, the table and the recommendations."""
    parts: list[RenderableType] = [*comparison_facts(comparison, with_defaults=details)]
    parts += [Text(), strategy_table(comparison), Text(), *comparison_advice(comparison, command)]
    if details:
        parts += [Text(), *comparison_details(comparison)]
    by = "total tokens" if comparison.model is None else "the model"
    sentence = f"By {by}; calibrate for time."
    if comparison.is_timed:
        sentence = "Speed-ups are of time by the calibration."
    flags = [] if details else ["--details"]
    flags += ["--all"] if comparison.not_shown else []
    flags += ["--model"] if comparison.model is None and not comparison.is_timed else []
    more = f" More: {', '.join(flags)}" if flags else ""
    return Group(*parts, Line("", f"{sentence}{more}"))


def comparison_advice(
    comparison: Comparison, command: Callable[[Change], str]
) -> Iterator[RenderableType]:
    """Yield what setups lose, then what would help; of a single row only its line."""
    changes = comparison.changes
    advised = (changes.star, changes.fastest, changes.in_loader)
    advised_rows = [each.row for each in advised if each is not None]
    yield from loss_lines([changes.current, *advised_rows])
    if len(comparison.strategies) == 1 and changes.current_fits:
        row = comparison.current
        padding = percent(row.counts.padding_ratio)
        yield Line("result", f"{row.label}: {padding} padding in {batches(row.counts.batches)}.")
        # A change from the row to itself: its line runs the row as it is.
        if line := command(Change(row=row, current=row)):
            yield Pasted("use", line)
        return
    yield from Advisor(changes, comparison.basis, comparison.device, command).lines()


def comparison_facts(comparison: Comparison, with_defaults: bool = True) -> Iterator[Line]:
    """Yield the lines on what all rows share, `with_defaults` also on the main settings."""
    # A recorded run has no `order`: its samples are in the sequence in which they were trained.
    order = "in the order of the run" if comparison.run is not None else ""
    yield Line("basis", basis_line(comparison.basis, with_defaults, order))
    if comparison.subsample is not None:
        sample = comparison.subsample
        samples = f"{sample.samples:,} of {counted(sample.corpus_samples, 'sample')}"
        yield Line(
            "ESTIMATE",
            f"all numbers describe {percent(sample.share)} of the corpus: {samples}, in "
            f"{sample.blocks:,} random blocks; ± is the {percent(sample.confidence, 0)} confidence "
            "interval for the padding of the whole corpus",
        )
    if (model := comparison.model) is not None:
        shape = f"hidden {model.hidden:,}, {counted(model.layers, 'layer')}"
        per_token = f"{model.linear:.3g} operations per token and {model.quadratic:.3g} per pair"
        yield Line("model", f"{shape}: {per_token} of tokens in a row, an estimate")
    yield from device_lines(comparison.device, comparison.basis)
    if comparison.basis.sampler != "none" or comparison.basis.keep_labels:
        current = comparison.current
        drawn = counted(current.counts.drawn_samples, "sample")
        computed = f"{percent(current.counts.coverage)} of the corpus's {comparison.samples:,}"
        words = f"{drawn}; {current.label} computes {computed}: see batchstat balance"
        yield Line("sampler", words)


def strategy_table(comparison: Comparison) -> Fitting:
    """Return the table of the rows, with words on each strategy where there is room."""
    return Fitting(_rows(comparison, with_words=True), _rows(comparison, with_words=False))


def _rows(comparison: Comparison, *, with_words: bool) -> Rows:
    """Return the table of the rows, with or without a few words on each strategy."""
    columns = strategy_columns(comparison.strategies, comparison.speed_up, comparison)
    current = comparison.current
    if not with_words:  # what a narrow terminal has no room for
        columns.pop("batch tokens", None)
    rows = Rows("  strategy", *columns, note=_legend(comparison))
    for row in comparison.strategies:
        # A row of which nothing is important has a blank for a sign, and no standing.
        sign, standing = _SIGNS.get(_most_important(row, comparison), (" ", ""))
        style = STANDINGS.get(standing, "")
        strategy, label = row.request.strategy, row.label
        # Its setup is the row above it: the name alone leaves room for columns.
        if isinstance(strategy, Regrouped) and strategy.setup == current.request.strategy:
            label = f"{row.name}:equal_sizes=true" if strategy.equal_sizes else row.name
        elif row.label == f"{row.name}:distribute=balanced":
            label = f"{row.name}{_BALANCED}"
        name = Text(f"{sign} {folded(label, _LONGEST_NAME)}", style=style)
        # A strategy with parameters in its name needs no further words, and has no room for them.
        if with_words and strategy.in_short and ":" not in label:
            name.append(f"  {strategy.in_short}", style="not bold dim")
        rows.add(name, *(show(row) for show in columns.values()), standing=standing)
    return rows


def strategy_columns(
    rows: Sequence[StrategyResult],
    speed_up: Callable[[StrategyResult], float],
    comparison: Comparison,
) -> dict[str, Callable[[StrategyResult], str]]:
    """Return the columns that have something to say: by heading, what returns a cell."""
    columns: dict[str, Callable[[StrategyResult], str]] = {}
    columns["padding"] = lambda row: percent(row.counts.padding_ratio)
    # Numbers that are an estimate from a part of the corpus have intervals.
    if any(row.interval for row in rows):
        columns["±"] = lambda row: f"{100 * row.interval.margin:.2f}" if row.interval else ""
    # Rows that were simulated with several seeds have the padding over these: all equally many.
    if over_seeds := [row.seeds for row in rows if row.seeds]:
        seeds = len(over_seeds[0].padding_ratio.ratios)
        columns[f"over {seeds} seeds"] = lambda row: (
            f"{percent(ratio.mean, 2)} ± {100 * ratio.std:.2f}"
            if (ratio := row.seeds and row.seeds.padding_ratio)
            else ""
        )
    columns["speed-up"] = lambda row: f"{speed_up(row):.2f}x"
    columns |= device_columns(rows, comparison.device)
    columns["steps"] = lambda row: f"{row.counts.steps:,}"
    columns["batch size"] = batch_size
    columns["shuffling"] = comparison.shuffling
    # How much smaller batches of unlike size have become: each costs something whatever it holds.
    if any(isinstance(row.request.strategy, Regrouped) for row in rows):
        columns["batch tokens"] = lambda row: f"{row.counts.mean_batch_tokens:,.0f}"
    if any(row.counts.over_budget_batches for row in rows):
        columns["over budget"] = lambda row: (
            f"{row.counts.over_budget_batches:,}" if row.counts.over_budget_batches else ""
        )
    if len({row.counts.lost_share for row in rows}) > 1:
        columns["lost"] = lambda row: _share(row.counts.lost_share)
    if len({row.counts.repeated_share for row in rows}) > 1:
        columns["repeated"] = lambda row: _share(row.counts.repeated_share)
    if any(row.request.settings.world_size > 1 for row in rows):
        columns["rank idle"] = lambda row: percent(rank_idle(row))
    # Only if the trained tokens of some row do not all have the weight 1.
    if {weight_range(row) for row in rows} - {"", "1.00"}:
        columns["token weight"] = weight_range
    return columns


def weight_range(row: StrategyResult) -> str:
    """Return what trained tokens weigh, p5 to p95, such as "0.62-1.48"; or an empty text."""
    weights = None if row.trained is None else row.trained.weights
    return "" if weights is None else span(weights.p5, weights.p95, ".2f")


def _share(share: float) -> str:
    return percent(share, 2) if share else ""


# What is most important to know of a row: its sign and its standing in `STANDINGS`.
_SIGNS = {
    "best": ("★", "best"),
    "current": ("●", "current"),
    "over budget": ("!", "over"),
    "does not fit": (TOO_LARGE, "over"),
    "fastest": ("+", "good"),
    "needs varlen attention": ("†", ""),
}


def _most_important(row: StrategyResult, comparison: Comparison) -> str:
    """Return the key in `_SIGNS` of what is most important to know of a row; or nothing."""
    changes = comparison.changes
    if changes.star is not None and row is changes.star.row:
        return "best"
    if row is changes.current:
        return "current"
    # A batch of one unpadded sample cannot be smaller, so it is not held against the budget.
    if row.counts.reducible_peak > comparison.basis.tokens_per_batch:
        return "over budget"
    # None, where that is not known, does not count.
    if row.on_device.fits_memory is False:
        return "does not fit"
    if changes.fastest is not None and row is changes.fastest.row:
        return "fastest"
    return "needs varlen attention" if row.packs_rows and not changes.current.packs_rows else ""


_BALANCED = "°"  # sign behind the name of a row whose batches are balanced over the ranks


def _legend(comparison: Comparison) -> str:
    """Return what the signs in the table mean: only those that it shows."""
    signs_used = {_most_important(row, comparison) for row in comparison.strategies}
    # A peak that does not fit has this sign even in a row whose own sign is another one.
    if any(row.on_device.fits_memory is False for row in comparison.strategies):
        signs_used.add("does not fit")
    signs = [f"{sign} {words}" for words, (sign, _) in _SIGNS.items() if words in signs_used]
    if any(row.label == f"{row.name}:distribute=balanced" for row in comparison.strategies):
        signs.append(f"{_BALANCED} distribute=balanced")
    if any(row.on_device.is_extrapolated for row in comparison.strategies):
        signs.append(f"{EXTRAPOLATED} extrapolated")
    return "   ".join(signs)
