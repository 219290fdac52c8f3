"""A comparison as a screen of text: the table, what it can be judged by, what to use."""

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.costs import CostModel
from batchstat.ranks import WorstStep
from batchstat.reach import Mixing
from batchstat.render.layout import Rows, basis_line, heading
from batchstat.render.words import batches, counted, decimal, percent
from batchstat.report import Comparison, SampleFacts, SeedSpread, StrategyResult, SweepPoint

_WORTH_A_FACTOR = 1.1


def comparison_screen(comparison: Comparison) -> RenderableType:
    """What `compare` prints: the basis, the tables, the sentence and the recommendation."""
    parts: list[RenderableType] = [heading("basis", basis_line(comparison.basis))]
    if comparison.sample is not None:
        parts.append(heading("ESTIMATE", _sample(comparison.sample)))
    if comparison.model is not None:
        parts.append(heading("model", _model(comparison.model)))
    if comparison.basis.balance != "none" or comparison.basis.keep_labels:
        parts.append(heading("visits", _visits(comparison)))
    parts += [Text(), _strategies(comparison)]
    parts += [heading("bounds", _bounds(comparison)), *_presets(comparison)]
    if comparison.left_out:
        parts.append(heading("left out", f"{', '.join(comparison.left_out)}: see them with --all"))
    price = Text("price", style="bold").append(
        "   attention, model: computed / needed, estimated; then distance from random",
        "not bold",
    )
    parts += [Text(), price, _price(comparison), Text()]
    if comparison.basis.world_size > 1:
        words = "   idle: time in which ranks wait for the slowest; then the worst step"
        parts += [Text("ranks", style="bold").append(words, "not bold"), _ranks(comparison), Text()]
    parts += [heading("result", _verdict(comparison)), heading("use", _recommendation(comparison))]
    return Group(*parts)


def _model(model: CostModel) -> str:
    words = [f"hidden {model.hidden:,}", counted(model.layers, "layer")]
    per_token = f"{model.linear:.3g} operations a token and {model.quadratic:.3g} a pair of tokens"
    return f"{', '.join(words)}: {per_token} of a row, an estimate"


def _sample(sample: SampleFacts) -> str:
    return (
        f"all numbers are of {percent(sample.share)} of the corpus: {sample.samples:,} of "
        f"{counted(sample.corpus_samples, 'sample')}, in {sample.blocks:,} blocks drawn at random; "
        f"± holds the padding of the whole in {percent(sample.confidence, 0)} of such draws"
    )


def _visits(comparison: Comparison) -> str:
    counts = comparison.reference.counts
    samples = counts.samples - counts.duplicated_samples + counts.dropped_samples
    return (
        f"{counted(samples, 'sample')}; {comparison.reference.label} computes "
        f"{percent(counts.reach.coverage)} of the {comparison.samples:,} of the corpus: see "
        "batchstat balance"
    )


def _strategies(comparison: Comparison) -> Rows:
    spread = [f"over {comparison.seeds} seeds"] if comparison.seeds > 1 else []
    spread = ["±", *spread] if comparison.sample is not None else spread
    rows = Rows(
        *("strategy", "padding", *spread, "batches", "steps"),
        *("samples/batch", "fill", "shapes", "cut"),
    )
    for row in comparison.strategies:
        counts = row.counts
        rows.add(
            _label(row, comparison),
            percent(counts.padding_ratio, 2),
            *([] if row.interval is None else [f"{100 * row.interval.margin:.2f}"]),
            *([] if row.seeds is None else [_spread(row.seeds)]),
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


def _bounds(comparison: Comparison) -> str:
    bounds = comparison.bounds
    return (
        f"{percent(bounds.sorted_padding_ratio, 2)} padding with all samples sorted · "
        f"{batches(bounds.batches)} with no padding · packed into "
        f"{counted(bounds.packed_rows, 'row')} at least"
    )


def _presets(comparison: Comparison) -> list[RenderableType]:
    return [
        heading("preset", f"{row.preset} is {row.spec}{_dealt(row, comparison)}")
        for row in comparison.strategies
        if row.preset is not None
    ]


def _dealt(row: StrategyResult, comparison: Comparison) -> str:
    if comparison.basis.world_size == 1:
        return ""
    return f"; its ranks: {row.deal} dealt, tail {row.tail}"


def _price(comparison: Comparison) -> Rows:
    model = ["model"] if comparison.model is not None else []
    labelled = comparison.reference.counts.reach.mixing is not None
    classes = ("classes/batch", "single class", "class separation") if labelled else ()
    rows = Rows(
        *("strategy", "attention", *model, "row use"),
        *("neighbours", "separation", "samples ±", "tokens ±"),
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
            decimal(grouping.length_separation),
            percent(grouping.samples_per_batch_spread, 0),
            percent(grouping.tokens_per_step_spread, 0),
            *_mixing(row.counts.reach.mixing),
        )
    return rows


def _mixing(mixing: Mixing | None) -> list[str]:
    if mixing is None:
        return []
    separation = decimal(mixing.separation)
    return [f"{mixing.mean_classes:,.2f}", percent(mixing.single_class_ratio), separation]


def _ranks(comparison: Comparison) -> Rows:
    rows = Rows(
        *("strategy", "steps a rank", "idle", "idle attention"),
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
            f"{counts.reach.shared_samples:,}",
            percent(counts.reach.accuracy_bound, 2),
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
    best, reference = comparison.best, comparison.reference
    padding = percent(best.counts.padding_ratio)
    if len(comparison.strategies) == 1:
        judged = _above_bound(comparison)
        return f"{best.label}: {batches(best.counts.batches)}, {padding} padding{judged}."
    if best is reference:
        return (
            f"{best.label}: none of the others has fewer batches, or as few with less padding, at "
            "equal peak memory."
        )
    fewer = reference.counts.batches / best.counts.batches
    instead = batches(best.counts.batches)
    if fewer == 1:
        instead = f"as many batches ({best.counts.batches:,})"
    else:
        instead += f" instead of {reference.counts.batches:,}"
    if fewer >= _WORTH_A_FACTOR:
        instead += f" ({fewer:,.1f} times fewer)"
    beyond = ""
    if reference.counts.max_batch_tokens > comparison.basis.tokens_per_batch:
        beyond = f"; {reference.label} needs a higher peak"
    return (
        f"{best.label} against {reference.label}: {instead}, padding {padding} instead of "
        f"{percent(reference.counts.padding_ratio)}{_above_bound(comparison)}{beyond}."
    )


def _above_bound(comparison: Comparison) -> str:
    best, bounds = comparison.best, comparison.bounds
    counts = best.counts
    if best.is_packed:
        width = best.params.get("max_length")
        if width != comparison.basis.max_length or counts.dropped_tokens:
            return ""
        more = counts.rows / bounds.packed_rows - 1
        if more > 0:
            return f"; {percent(more)} more rows than the least possible"
        return "; no packing has fewer rows"
    points = 100 * (counts.padding_ratio - bounds.sorted_padding_ratio)
    if f"{abs(points):.1f}" == "0.0":
        return ", as little as with all samples sorted"
    side = "below" if points < 0 else "above"
    return f", {abs(points):.1f} points {side} that of all samples sorted"


def _recommendation(comparison: Comparison) -> str:
    sweep, row = comparison.sweep, comparison.best
    chosen = sweep.recommended
    better = chosen.padding_ratio < row.counts.padding_ratio or chosen.batches < row.counts.batches
    if not row.is_packed and row is comparison.reference and not better:
        return f"{row.label}, as it is: no read_ahead does better."
    text = (
        f"{sweep.recommended_spec}, {percent(chosen.padding_ratio)} padding in "
        f"{batches(chosen.batches)}"
    )
    if chosen is not sweep.best:
        text += (
            f", the smallest read_ahead, and so the least sorting, within half a point of the best "
            f"({percent(sweep.best.padding_ratio)} at {sweep.best.read_ahead:,})"
        )
    if row.is_packed:
        text = f"{row.label}, if attention keeps the samples of a row apart; else {text}"
    elif sweep.spec != row.spec:
        text = f"{row.label}, as it is; or {text}"
    return f"{text}.{_its_price(chosen)} Padding is not speed: time both on your hardware."


def _its_price(point: SweepPoint) -> str:
    """What the recommended grouping costs, where it is more than random batches have."""
    separation = point.grouping.length_separation
    if separation is None or separation < _NOTICED:
        return ""
    spread = percent(point.grouping.samples_per_batch_spread, 0)
    return (
        f" Its price: batches hold like lengths (separation {separation:.2f}, 0 is random) and "
        f"their samples vary by {spread}: watch the loss."
    )


_NOTICED = 0.5
