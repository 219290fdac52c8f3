"""The screen of `balance`: what each sampler computes and how often it shows each class."""

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.render.device import EXTRAPOLATED, TOO_LARGE, device_columns
from batchstat.render.screens.balance_details import balance_details, by_size
from batchstat.render.screens.layout import Fitting, Line, Pasted, Rows
from batchstat.render.screens.simulated import basis_line, device_lines
from batchstat.render.text import class_name, one_line, percent
from batchstat.simulation.balance.report import MOST_COMPUTE, BalanceReport, SamplerResult
from batchstat.words import counted

_TIP = "Class weights in the loss also balance classes, without repeating samples."
_MOST_SHOWN = 3  # classes with a column each; of more, the largest and the smallest
_EVEN_ENOUGH = 1.5  # up to this ratio of the largest class to the smallest, no sampler is needed


def balance_screen(
    report: BalanceReport, command: Callable[[str], str], details: bool = False
) -> RenderableType:
    """Return what `balance` prints: the basis, the table and the recommendation."""
    parts = [*balance_facts(report, with_defaults=details), Text(), sampler_table(report), Text()]
    parts += recommendation(report, command)
    if details:
        return Group(*parts, Text(), *balance_details(report))
    return Group(*parts, Line("", "More: --details"))


def balance_facts(report: BalanceReport, with_defaults: bool = True) -> list[RenderableType]:
    """Return the lines on what all rows share, `with_defaults` also on the main settings."""
    basis = Line("basis", basis_line(report.basis, with_defaults))
    device = device_lines(report.device, report.basis)
    return [basis, *device, Line("classes", _classes_line(report))]


def sampler_table(report: BalanceReport) -> Fitting:
    """Return the table of the samplers: what each draws, computes and shows. A star is the best."""
    recommended = report.recommended
    device_cells = device_columns([sampler.row for sampler in report.samplers], report.device)
    classes = report.samplers[0].classes  # the same for all samplers
    class_indices = by_size(report)  # of the classes that have a column: the largest first
    class_headings = [f"each {class_name(classes[i].label, 12)}" for i in class_indices]
    if len(classes) > _MOST_SHOWN:
        class_indices = [class_indices[0], class_indices[-1]]
        class_headings = ["largest class", "smallest class"]
    legend = []
    if recommended is not None:
        # None, where the sampler `none` has no batch to compare with: no sampler is expensive.
        is_expensive = (recommended.relative_compute or 0) > MOST_COMPUTE
        why = f"the most seen for at most {MOST_COMPUTE}x the compute"
        why = "the least compute of those that balance the classes" if is_expensive else why
        legend.append(f"★ recommended: {why}")
    epochs_on_device = [sampler.row.on_device for sampler in report.samplers]
    if any(epoch.fits_memory is False for epoch in epochs_on_device):
        legend.append(f"{TOO_LARGE} does not fit")
    if any(epoch.is_extrapolated for epoch in epochs_on_device):
        legend.append(f"{EXTRAPOLATED} extrapolated")
    rows = Rows(
        *("  sampler", "epoch size", "compute", *device_cells),
        *("seen", f"in {report.epochs} epochs", *class_headings),
        "most repeats",
        note="   ".join(legend),
    )
    for sampler in report.samplers:
        compute, drawn = sampler.relative_compute, sampler.classes
        rows.add(
            Text(f"{'★' if sampler is recommended else ' '} {one_line(sampler.spec, 40)}"),
            f"{sampler.samples:,}",
            "-" if compute is None else f"{compute:.2f}x",
            *(show(sampler.row) for show in device_cells.values()),
            percent(sampler.coverage),
            percent(sampler.coverage_after),
            # Samples that are drawn / those of the corpus.
            *(f"{drawn[i].after / drawn[i].before:.2f}x" for i in class_indices),
            f"{sampler.max_repeats:,}",
            standing="best" if sampler is recommended else "",
        )
    return Fitting(rows)


def _classes_line(report: BalanceReport) -> str:
    """Return the line on the classes: how many, how unequal, and samples with no or many labels."""
    class_count = len(report.samplers[0].classes)  # as many for all samplers
    words = [counted(class_count, "class", "classes")]
    if class_count > 1:
        # A profile counts a sample in each of its classes, so that its ratio may be another one.
        in_one_class = ", each sample in its rarest class alone" if report.multilabel else ""
        ratio = f"{report.class_ratio:,.1f}"
        words.append(f"the largest has {ratio} times the samples of the smallest{in_one_class}")
    if report.unlabelled and report.basis.keep_labels:
        words.append(f"{counted(report.unlabelled, 'sample')} with other or no labels are dropped")
    elif report.unlabelled:
        words.append(f"{counted(report.unlabelled, 'sample')} without a label, drawn only by none")
    if report.multilabel:
        words.append(f"{counted(report.multilabel, 'sample')} with several labels")
    return " · ".join(words)


def recommendation(
    report: BalanceReport, command: Callable[[str], str]
) -> Iterator[RenderableType]:
    """Yield the result in a sentence, and the line to paste where a sampler is recommended."""
    chosen = report.recommended
    if len(report.samplers[0].classes) == 1:
        yield Line("result", "There is only one class.")
    elif report.class_ratio <= _EVEN_ENOUGH:
        range_of_sizes = f"within {report.class_ratio:,.1f} times of each other"
        yield Line("result", f"No sampler is needed: the classes are {range_of_sizes}.")
    # No sampler is good enough to be recommended, but those that balance the classes are named.
    elif chosen is None:
        balanced_samplers = "; ".join(_cost(row, report) for row in report.balanced)
        yield Line("result", f"{balanced_samplers or 'No sampler here balances the classes'}.")
        yield Line("", _TIP)
    else:
        yield Line("result", f"{_cost(chosen, report)}.")
        yield Pasted("use", command(chosen.spec))
        yield Line("", _TIP)


def _cost(row: SamplerResult, report: BalanceReport) -> str:
    """Return what a sampler costs: its compute, and how much of the corpus is seen."""
    compute = row.relative_compute
    # Without a batch of `none`, there is no compute to compare with.
    cost = "none has no batch to compare with"
    if compute is not None:
        warning = ", which is expensive" if compute > MOST_COMPUTE else ""
        cost = f"{compute:,.2f}x the compute of none{warning}"
    return (
        f"{one_line(row.spec)} balances the classes: {cost}, and {percent(row.coverage_after)} of "
        f"the corpus is seen in {counted(report.epochs, 'epoch')}"
    )
