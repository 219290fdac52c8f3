"""The screen of `compare`: the table, what to judge it by, and what to use."""

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.errors import counted
from batchstat.render.screens.layout import Rows, basis_line, heading, pasted
from batchstat.render.text import batches, decimal, percent
from batchstat.simulation.comparison import Comparison, SeedSpread, StrategyResult
from batchstat.simulation.cost_model import CostModel
from batchstat.simulation.estimate import SampleFacts
from batchstat.simulation.mixing import ClassMixing
from batchstat.simulation.rank_idle import WorstStep

_ABOUT_EQUAL = 1.1
"""Speed-ups below this are within the error of an estimate."""


def comparison_screen(
    comparison: Comparison, command: Callable[[StrategyResult], str]
) -> RenderableType:
    """Return what `compare` prints: the basis, the tables, the result and the recommendations.

    Args:
        comparison: the rows.
        command: returns the command that uses a row's strategy with the same settings.
    """
    parts: list[RenderableType] = [heading("basis", basis_line(comparison.basis))]
    if comparison.subsample is not None:
        parts.append(heading("ESTIMATE", _sample(comparison.subsample)))
    if comparison.model is not None:
        parts.append(heading("model", _model(comparison.model)))
    if comparison.basis.sampler != "none" or comparison.basis.keep_labels:
        parts.append(heading("sampler", _sampled(comparison)))
    parts += [Text(), _strategies(comparison)]
    parts += [heading("sorted", _sorted(comparison)), heading("least", _least(comparison))]
    parts += _own_settings(comparison)
    if comparison.not_shown:
        parts.append(heading("more", f"{', '.join(comparison.not_shown)} (--all shows them)"))
    cost = Text("cost", style="bold").append(
        "    attention, model: estimated compute / needed; then how far batches are from random",
        "not bold",
    )
    parts += [Text(), cost, _cost(comparison), Text()]
    if comparison.basis.world_size > 1:
        words = "   rank idle: time that ranks wait for the slowest; then the worst step"
        parts += [Text("ranks", style="bold").append(words, "not bold"), _ranks(comparison), Text()]
    parts += [heading("result", _verdict(comparison)), *_recommendations(comparison, command)]
    return Group(*parts)


def _model(model: CostModel) -> str:
    words = [f"hidden {model.hidden:,}", counted(model.layers, "layer")]
    per_token = f"{model.linear:.3g} operations per token and {model.quadratic:.3g} per pair"
    return f"{', '.join(words)}: {per_token} of tokens in a row, an estimate"


def _sample(sample: SampleFacts) -> str:
    return (
        f"all numbers describe {percent(sample.share)} of the corpus: {sample.samples:,} of "
        f"{counted(sample.corpus_samples, 'sample')}, in {sample.blocks:,} random blocks; ± is the "
        f"{percent(sample.confidence, 0)} confidence interval for the padding of the whole corpus"
    )


def _sampled(comparison: Comparison) -> str:
    counts = comparison.current.counts
    samples = counts.samples - counts.duplicated_samples + counts.dropped_samples
    return (
        f"{counted(samples, 'sample')}; {comparison.current.label} computes "
        f"{percent(counts.coverage)} of the corpus's {comparison.samples:,}: see batchstat "
        "balance"
    )


def _strategies(comparison: Comparison) -> Rows:
    spread = [f"over {comparison.seeds} seeds"] if comparison.seeds > 1 else []
    spread = ["±", *spread] if comparison.subsample is not None else spread
    rows = Rows(
        *("strategy", "padding", *spread, "speed-up", "batches", "steps"),
        *("samples/batch", "fill", "shapes", "lost"),
    )
    for row in comparison.strategies:
        counts = row.counts
        rows.add(
            _label(row, comparison),
            percent(counts.padding_ratio, 2),
            *([] if row.interval is None else [f"{100 * row.interval.margin:.2f}"]),
            *([] if row.seeds is None else [_spread(row.seeds)]),
            f"{comparison.speed_up(row):.2f}x",
            f"{counts.batches:,}",
            f"{counts.steps:,}",
            f"{counts.mean_samples_per_batch:,.1f}",
            percent(counts.fill),
            f"{counts.distinct_shapes:,}",
            percent(counts.lost_ratio, 2),
        )
    return rows


def _spread(seeds: SeedSpread) -> str:
    return f"{percent(seeds.padding_mean, 2)} ± {100 * seeds.padding_std:.2f}"


def _label(row: StrategyResult, comparison: Comparison) -> Text:
    return Text(row.label, style="bold" if row is comparison.best else "")


def _sorted(comparison: Comparison) -> str:
    bounds, params = comparison.bounds, comparison.best.params
    size = params.get("batch_size")
    cut = "by the same budget" if size is None else f"every {counted(size, 'sample')}"
    return (
        f"{percent(bounds.sorted_padding_ratio, 2)} padding in {batches(bounds.sorted_batches)} "
        f"with all samples sorted and cut {cut}, as {comparison.best.label} is"
    )


def _least(comparison: Comparison) -> str:
    bounds = comparison.bounds
    return (
        f"{batches(bounds.batches)} without padding · {counted(bounds.packed_rows, 'row')} when "
        "packed"
    )


def _own_settings(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield the settings of each row that differ from those that the rows share."""
    keys = ("order", "distribute", "remainder") if comparison.basis.world_size > 1 else ("order",)
    for row in comparison.strategies:
        own, shared = row.request.settings, comparison.basis
        pairs = [(key, getattr(own, key), getattr(shared, key)) for key in keys]
        differing = [f"{key} {mine}" for key, mine, theirs in pairs if mine != theirs]
        if differing:
            yield heading("but", f"{row.label} has {', '.join(differing)}")


def _cost(comparison: Comparison) -> Rows:
    model = ["model"] if comparison.model is not None else []
    labelled = comparison.current.counts.sample_coverage.mixing is not None
    classes = ("classes/batch", "single class", "class homogeneity") if labelled else ()
    rows = Rows(
        *("strategy", "attention", *model, "packing efficiency"),
        *("correlation", "length homogeneity", "batch size ±", "step tokens ±"),
        *classes,
    )
    for row in comparison.strategies:
        costs, grouping = comparison.costs(row), row.counts.grouping
        efficiency = row.counts.packing_efficiency
        rows.add(
            _label(row, comparison),
            f"{costs['quadratic']:.2f}",
            *([f"{costs['model']:.2f}"] if model else []),
            "-" if efficiency is None else percent(efficiency),
            decimal(grouping.neighbour_correlation),
            decimal(grouping.length_homogeneity),
            percent(grouping.samples_per_batch_cv, 0),
            percent(grouping.tokens_per_step_cv, 0),
            *_mixing(row.counts.sample_coverage.mixing),
        )
    return rows


def _mixing(mixing: ClassMixing | None) -> list[str]:
    if mixing is None:
        return []
    homogeneity = decimal(mixing.homogeneity)
    return [f"{mixing.mean_classes:,.2f}", percent(mixing.single_class_ratio), homogeneity]


def _ranks(comparison: Comparison) -> Rows:
    rows = Rows(
        *("strategy", "steps/rank", "rank idle", "attention idle"),
        *("repeated", "dropped", "shared", "accuracy ±", "step", "slowest", "mean", "because"),
    )
    for row in comparison.strategies:
        counts = row.counts
        ranks, worst = counts.ranks, counts.ranks.worst
        steps = f"{ranks.min_steps:,}"
        rows.add(
            _label(row, comparison),
            steps if ranks.step_gap == 0 else f"{steps}-{ranks.max_steps:,}",
            percent(counts.rank_idle),
            percent(counts.rank_idle_quadratic),
            f"{counts.duplicated_samples:,}",
            f"{counts.dropped_samples:,}",
            f"{counts.sample_coverage.shared_samples:,}",
            percent(counts.sample_coverage.accuracy_bound, 2),
            f"{worst.step:,}",
            f"{worst.tokens:,}",
            f"{worst.mean_tokens:,.0f}",
            _because(worst),
        )
    return rows


def _because(worst: WorstStep) -> str:
    if worst.ranks_without:
        return f"{counted(worst.ranks_without, 'rank')} without a batch"
    return f"{worst.rows:,} x {worst.width:,} on rank {worst.rank}"


def _verdict(comparison: Comparison) -> str:
    choice, current, best = comparison.choice, comparison.current, comparison.best
    padding = percent(best.counts.padding_ratio)
    if choice.best is None:
        needed = min(row.counts.reducible_peak for row in comparison.strategies)
        return (
            f"no strategy in the table keeps its batches within {_budget(comparison)}: set "
            f"--tokens-per-batch {needed} to fit one"
        )
    if len(comparison.strategies) == 1:
        number = batches(best.counts.batches)
        return f"{best.label}: {number}, {padding} padding{_above_least(comparison)}."
    if best is current:
        text = (
            f"keep {current.label}: no other row saves over 10% of its compute, or has fewer steps "
            "for the same compute."
        )
    else:
        text = (
            f"{best.label} against {current.label}: {_speed_up(comparison, best)}, padding "
            f"{padding} instead of {percent(current.counts.padding_ratio)}, {_steps(best, current)}"
            f"{_above_least(comparison)}."
        )
    if choice.smaller_change and comparison.speed_up(choice.smaller_change) > comparison.speed_up(
        best
    ):
        text += " Rows within 10% of each other count as equal, and then the fewest steps win."
    return text + _ruled_out(comparison)


def _budget(comparison: Comparison) -> str:
    return f"tokens_per_batch={comparison.basis.tokens_per_batch:,}"


def _speed_up(comparison: Comparison, row: StrategyResult) -> str:
    factor = comparison.speed_up(row)
    by = "total tokens" if comparison.model is None else "the model"
    if 1 / _ABOUT_EQUAL < factor < _ABOUT_EQUAL:
        return f"about as much compute ({factor:.2f}x by {by})"
    return f"an estimated {factor:.2f}x speed-up (by {by})"


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
    else:
        why = f"it loses {percent(counts.lost_ratio)} of the tokens"
    return f" {row.label} would come first, but {why}."


def _above_least(comparison: Comparison) -> str:
    """Return how far packed rows are from the fewest possible."""
    best, bounds = comparison.best, comparison.bounds
    counts = best.counts
    comparable = best.params.get("max_length") == comparison.basis.max_length
    if not best.packs_rows or not comparable or counts.dropped_tokens or counts.duplicated_tokens:
        return ""
    more = counts.rows / bounds.packed_rows - 1
    if more > 0:
        return f"; {percent(more)} more rows than the lower bound"
    return "; no packing has fewer rows"


def _recommendations(
    comparison: Comparison, command: Callable[[StrategyResult], str]
) -> Iterator[RenderableType]:
    """Yield at most two lines to paste, each with its trade-off, and what packing would give."""
    choice, current = comparison.choice, comparison.current
    if choice.best is None:
        return
    if choice.best is not current or len(comparison.strategies) == 1:
        yield heading("use", f"{choice.best.label}: {_trade_off(choice.best, current)}")
        yield pasted("", command(choice.best))
    if choice.smaller_change is not None:
        row = choice.smaller_change
        text = f"{row.label}: {_speed_up(comparison, row)}; {_trade_off(row, current)}"
        yield heading("or", text)
        yield pasted("", command(row))
    if choice.packed is not None:
        row = choice.packed
        text = f"{row.label}: {_speed_up(comparison, row)}, but it needs varlen attention, which "
        yield heading("packing", text + "keeps the samples of a row apart")
    if choice.best is not current or comparison.sweep.spec == current.label:
        yield heading("sorting", _sorting(comparison))
    yield heading("", "Speed-ups are estimates: time both on your hardware.")


def _trade_off(row: StrategyResult, current: StrategyResult) -> str:
    counts = row.counts
    if counts.steps == current.counts.steps and _samples(row) == _samples(current):
        words = ["the same steps and batch size"]
    else:
        words = [_steps(row, current), f"{_samples(row)} samples per batch"]
    homogeneity = counts.grouping.length_homogeneity
    if homogeneity is not None and homogeneity >= _NOTICED:
        words.append(
            f"batches hold similar lengths (homogeneity {homogeneity:.2f}, 0 is random): watch the "
            "loss"
        )
    if row.packs_rows:
        words.append("needs varlen attention, which keeps the samples of a row apart")
    return ", ".join(words)


def _samples(row: StrategyResult) -> str:
    least, most = row.counts.min_samples_per_batch, row.counts.max_samples_per_batch
    size: int | None = row.params.get("batch_size")
    if size is not None and most <= size:
        return f"{size:,}"
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _sorting(comparison: Comparison) -> str:
    sweep = comparison.sweep
    chosen, best = sweep.recommended, sweep.best
    text = (
        f"{sweep.recommended_spec} has {percent(chosen.padding_ratio)} padding in "
        f"{batches(chosen.batches)}"
    )
    if chosen is best:
        return f"{text}, the least of any read_ahead"
    return (
        f"{text}: the smallest read_ahead, so the least sorting, within half a percentage point of "
        f"the best ({percent(best.padding_ratio)} at {best.read_ahead:,})"
    )


_NOTICED = 0.5
"""Length homogeneity from which on a trade-off mentions it."""
