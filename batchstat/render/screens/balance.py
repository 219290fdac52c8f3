"""The screen of `balance`: what each sampler draws, of which classes, and how that batches."""

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.errors import counted
from batchstat.render.screens.layout import Rows, basis_line, heading, pasted
from batchstat.render.text import class_name, decimal, one_line, percent
from batchstat.simulation.balances import MOST_COMPUTE, BalanceReport, SamplerResult

_MOST_CLASSES = 12
_EVEN_ENOUGH = 1.5
_APART = 0.1


def balance_screen(report: BalanceReport, command: Callable[[str], str]) -> RenderableType:
    """Return what `balance` prints: the basis, the tables, the result and the recommendation.

    Args:
        report: the samplers.
        command: returns the command that batches a sampler's samples with the same settings.
    """
    strategy = report.samplers[0].row.label
    drawn = Text("drawn", style="bold").append(_what_is_drawn(report), "not bold")
    by = Text("batches", style="bold")
    by.append(f"  by {one_line(strategy)}; compute is relative to none", "not bold")
    parts: list[RenderableType] = [
        heading("basis", basis_line(report.basis)),
        heading("classes", _classes_line(report)),
        *(Text(), drawn, _drawn(report), Text(), by, _batches(report)),
        *(Text(), _heading_of_classes(report), _classes(report), Text()),
    ]
    if report.basis.world_size > 1:
        words = "     per rank: samples, largest class / smallest, steps; then over all ranks"
        parts += [Text("ranks", style="bold").append(words, "not bold"), _ranks(report), Text()]
    return Group(*parts, heading("result", _verdict(report)), *_recommendation(report, command))


def _what_is_drawn(report: BalanceReport) -> str:
    basis = report.basis
    if basis.distribute == "independent" and basis.world_size > 1:
        return "    as if all ranks shared one seed, which they do not here: see ranks"
    return "    by the sampler, before truncation, batching and distribution"


def _classes_line(report: BalanceReport) -> str:
    number = len(report.samplers[0].classes)
    words = [counted(number, "class", "classes")]
    if number > 1:
        words.append(f"the largest has {report.class_ratio:,.1f} times the samples of the smallest")
    if report.unlabelled and report.basis.keep_labels:
        words.append(f"{counted(report.unlabelled, 'sample')} with other or no labels are dropped")
    elif report.unlabelled:
        words.append(f"{counted(report.unlabelled, 'sample')} without a label, drawn only by none")
    if report.multilabel:
        words.append(
            f"{counted(report.multilabel, 'sample')} with several labels, counted as the rarest"
        )
    return " · ".join(words)


def _drawn(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "samples", "tokens", "mean length", "class ratio"),
        *("coverage", f"after {report.epochs}", "unseen", "repeats"),
    )
    for row in report.samplers:
        last = row.ratios[-1]
        rows.add(
            _name(row),
            f"{row.samples:,}",
            f"{row.lengths.sum:,}",
            f"{row.lengths.mean:,.1f}",
            f"{row.class_ratio:,.2f}" + (f" to {last:,.2f}" if _differ(row) else ""),
            percent(row.coverage),
            percent(row.coverage_after),
            f"{row.unseen:,}",
            f"{row.max_repeats:,}",
        )
    return rows


def _name(row: SamplerResult) -> Text:
    return Text(one_line(row.spec, 40))


def _differ(row: SamplerResult) -> bool:
    """Return whether the class ratio changes over epochs, beyond chance."""
    return row.name == "dynamic" and row.ratios[0] != row.ratios[-1]


def _batches(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "compute", "padding", "batches", "fill", "coverage"),
        *("classes/batch", "single class", "class homogeneity"),
    )
    for row in report.samplers:
        counts, mixing = row.row.counts, row.row.counts.sample_coverage.mixing
        assert mixing is not None
        rows.add(
            _name(row),
            decimal(row.relative_compute),
            percent(counts.padding_ratio, 2),
            f"{counts.batches:,}",
            percent(counts.fill),
            percent(counts.sample_coverage.coverage),
            f"{mixing.mean_classes:,.2f}",
            percent(mixing.single_class_ratio),
            decimal(mixing.homogeneity),
        )
    return rows


def _heading_of_classes(report: BalanceReport) -> Text:
    shown = min(len(report.samplers[0].classes), _MOST_CLASSES)
    more = len(report.samplers[0].classes) - shown
    words = "   samples of each" + (f"; {more:,} smaller ones are in balance.json" if more else "")
    return Text("classes", style="bold").append(words, "not bold")


def _classes(report: BalanceReport) -> Rows:
    first = report.samplers[0].classes
    order = sorted(range(len(first)), key=lambda i: -first[i].before)[:_MOST_CLASSES]
    rows = Rows("sampler", *(class_name(first[i].label, 24) for i in order))
    total = sum(each.before for each in first)
    rows.add(Text("the corpus"), *(_share(first[i].before, total) for i in order))
    for row in report.samplers:
        total = sum(each.after for each in row.classes)
        rows.add(_name(row), *(_share(row.classes[i].after, total) for i in order))
    return rows


def _share(count: int, total: int) -> str:
    return f"{count:,} ({percent(count / total)})"


def _ranks(report: BalanceReport) -> Rows:
    rows = Rows(
        *("sampler", "samples", "class ratio", "steps", "rank idle"),
        *("shared", "unseen", "repeated", "dropped"),
    )
    for row in report.samplers:
        counts, reach = row.row.counts, row.row.counts.sample_coverage
        held = [each.samples for each in reach.ranks]
        rows.add(
            _name(row),
            _range(min(held), max(held)),
            _ratios([each.classes for each in reach.ranks]),
            _range(counts.ranks.min_steps, counts.ranks.max_steps),
            percent(counts.rank_idle),
            f"{reach.shared_samples:,}",
            f"{reach.unseen_samples:,}",
            f"{counts.duplicated_samples:,}",
            f"{counts.dropped_samples:,}",
        )
    return rows


def _ratios(ranks: list[tuple[int, ...]]) -> str:
    """Return the largest class / smallest, from the lowest to the highest of any rank."""
    ratios = [max(held) / min(held) for held in ranks if min(held)]
    if len(ratios) < len(ranks):
        return "class missing"
    low, high = f"{min(ratios):,.2f}", f"{max(ratios):,.2f}"
    return low if low == high else f"{low}-{high}"


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _verdict(report: BalanceReport) -> str:
    words = [_of_sampler(row, report) for row in report.balanced]
    apart = [
        f"{one_line(row.spec)} {mixing.homogeneity:.2f}"
        for row in report.samplers
        if (mixing := row.row.counts.sample_coverage.mixing) is not None
        and (mixing.homogeneity or 0) > _APART
    ]
    if apart:
        strategy = report.samplers[0].row.label
        words.append(
            f"{strategy} separates the classes (0 is random, 1 one class per batch): "
            + ", ".join(apart)
        )
    return ". ".join(words or ["no sampler here balances the classes"]) + "."


def _of_sampler(row: SamplerResult, report: BalanceReport) -> str:
    text = f"{one_line(row.spec)} draws {percent(row.coverage)} of the corpus per epoch"
    if row.coverage < 1:
        text += f", {percent(row.coverage_after)} in {counted(report.epochs, 'epoch')}"
    if row.max_repeats > 1:
        text += f", and one sample {row.max_repeats:,} times"
    return text


def _recommendation(
    report: BalanceReport, command: Callable[[str], str]
) -> Iterator[RenderableType]:
    """Yield the recommendation; nothing if there is only one sampler."""
    if len(report.samplers) < 2:
        return
    chosen = report.recommended
    if len(report.samplers[0].classes) == 1:
        yield heading("use", "none: there is only one class.")
    elif report.class_ratio <= _EVEN_ENOUGH:
        within = f"within {report.class_ratio:,.1f} times of each other"
        yield heading("use", f"none: the classes are {within}.")
    elif chosen is None:
        yield heading("use", "none of these: no sampler here balances the classes.")
    else:
        yield pasted("use", command(chosen.spec))
        yield heading("", _reasons(chosen, report))


def _reasons(chosen: SamplerResult, report: BalanceReport) -> str:
    """Return the cost and coverage of the chosen sampler, then those of the others."""
    text = f"{_price(chosen, report)}."
    others = [row for row in report.balanced if row is not chosen]
    if others:
        text += f" Others: {'; '.join(_price(row, report) for row in others)}."
    return text + " Class weights in the loss also balance classes, without repeating samples."


def _price(row: SamplerResult, report: BalanceReport) -> str:
    compute = row.relative_compute
    cost = "more than none, which has no batch,"
    if compute is not None:
        expensive = ", which is expensive," if compute > MOST_COMPUTE else ""
        cost = f"{compute:,.2f} times the tokens of none{expensive}"
    unseen = f"{percent(1 - row.coverage_after)} of the corpus"
    if row.coverage_after == 1:
        unseen = "nothing"
    return (
        f"{one_line(row.spec)} computes {cost} and leaves {unseen} unseen in "
        f"{counted(report.epochs, 'epoch')}"
    )
