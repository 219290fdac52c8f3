"""The screen of `balance`: what each sampler computes and how often it shows each class."""

from collections.abc import Callable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.errors import counted
from batchstat.render.device import EXTRAPOLATED, TOO_LARGE, device_columns
from batchstat.render.screens.balance_details import balance_details, by_size
from batchstat.render.screens.layout import Fitting, Line, Pasted, Rows, basis_line, device_lines
from batchstat.render.text import class_name, one_line, percent
from batchstat.simulation.balance.report import MOST_COMPUTE, BalanceReport, SamplerResult

_TIP = "Class weights in the loss also balance classes, without repeating samples."
_MOST_SHOWN = 3
"""Classes with a column each; of more, the largest and the smallest."""
_EVEN_ENOUGH = 1.5


def balance_screen(
    report: BalanceReport, command: Callable[[str], str], details: bool = False
) -> RenderableType:
    """Return what `balance` prints: the basis, the table and the recommendation.

    Args:
        report: the samplers.
        command: returns the command that batches a sampler's samples with the same settings.
        details: whether the tables of all other numbers follow.
    """
    parts = [*balance_facts(report, details), Text(), sampler_table(report), Text()]
    parts += recommendation(report, command)
    if details:
        return Group(*parts, Text(), *balance_details(report))
    return Group(*parts, Line("", "More: --details"))


def balance_facts(report: BalanceReport, every: bool = True) -> list[RenderableType]:
    """Return what all rows share; `every` also has the main settings at their defaults."""
    basis = Line("basis", basis_line(report.basis, every))
    device = device_lines(report.device, report.basis)
    return [basis, *device, Line("classes", _classes_line(report))]


def sampler_table(report: BalanceReport) -> Fitting:
    """Return the samplers: what they draw and compute, and how much of the corpus is seen."""
    chosen, shown = report.recommended, by_size(report)
    on_device = device_columns([each.row for each in report.samplers], report.device)
    classes = report.samplers[0].classes
    names = [f"each {class_name(classes[i].label, 12)}" for i in shown]
    if len(classes) > _MOST_SHOWN:
        shown, names = [shown[0], shown[-1]], ["largest class", "smallest class"]
    rows = Rows(
        *("  sampler", "epoch size", "compute", *on_device),
        *("seen", f"in {report.epochs} epochs"),
        *names,
        "most repeats",
        note="   ".join(filter(None, (_why(chosen), *_signs(report)))),
    )
    for row in report.samplers:
        compute = row.relative_compute
        rows.add(
            Text(f"{'★' if row is chosen else ' '} {one_line(row.spec, 40)}"),
            f"{row.samples:,}",
            "-" if compute is None else f"{compute:.2f}x",
            *(show(row.row) for show in on_device.values()),
            percent(row.coverage),
            percent(row.coverage_after),
            *(f"{row.classes[i].after / row.classes[i].before:.2f}x" for i in shown),
            f"{row.max_repeats:,}",
            standing="best" if row is chosen else "",
        )
    return Fitting(rows)


def _signs(report: BalanceReport) -> Iterator[str]:
    found = [each.row.on_device for each in report.samplers]
    if any(each.fits_memory is False for each in found):
        yield f"{TOO_LARGE} does not fit"
    if any(each.is_extrapolated for each in found):
        yield f"{EXTRAPOLATED} extrapolated"


def _why(chosen: SamplerResult | None) -> str:
    if chosen is None:
        return ""
    if (chosen.relative_compute or 0) > MOST_COMPUTE:
        return "★ recommended: the least compute of those that balance the classes"
    return f"★ recommended: the most seen for at most {MOST_COMPUTE}x the compute"


def _classes_line(report: BalanceReport) -> str:
    number = len(report.samplers[0].classes)
    words = [counted(number, "class", "classes")]
    if number > 1:
        # A profile counts a sample in each of its classes, and may show another number of times.
        alone = ", each sample in its rarest class alone" if report.multilabel else ""
        ratio = f"{report.class_ratio:,.1f}"
        words.append(f"the largest has {ratio} times the samples of the smallest{alone}")
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
    """Yield the result in a sentence, and a line to paste; of one sampler, what it does."""
    chosen = report.recommended
    if len(report.samplers[0].classes) == 1:
        yield Line("result", "There is only one class.")
    elif report.class_ratio <= _EVEN_ENOUGH:
        within = f"within {report.class_ratio:,.1f} times of each other"
        yield Line("result", f"No sampler is needed: the classes are {within}.")
    elif chosen is None:
        balanced = "; ".join(_cost(row, report) for row in report.balanced)
        yield Line("result", f"{balanced or 'No sampler here balances the classes'}.")
        yield Line("", _TIP)
    else:
        yield Line("result", f"{_cost(chosen, report)}.")
        yield Pasted("use", command(chosen.spec))
        yield Line("", _TIP)


def _cost(row: SamplerResult, report: BalanceReport) -> str:
    compute = row.relative_compute
    cost = "none has no batch to compare with"
    if compute is not None:
        expensive = ", which is expensive" if compute > MOST_COMPUTE else ""
        cost = f"{compute:,.2f}x the compute of none{expensive}"
    return (
        f"{one_line(row.spec)} balances the classes: {cost}, and {percent(row.coverage_after)} of "
        f"the corpus is seen in {counted(report.epochs, 'epoch')}"
    )
