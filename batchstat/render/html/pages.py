"""The HTML page of each kind of result: profile, comparison, samplers, bucket edges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from batchstat.documents.balance import balance_document
from batchstat.documents.buckets import buckets_document
from batchstat.documents.comparison import comparison_document
from batchstat.documents.profile import profile_document
from batchstat.documents.strategy import MOST_BATCHES
from batchstat.findings import Finding
from batchstat.planning.batch_table import BatchTable
from batchstat.profiling.profile import Profile
from batchstat.render.html.blocks import Block, Chart, Folded, Table, blocks, table_of
from batchstat.render.html.page import MOST_ENTRIES, Page, Section
from batchstat.render.html.what_if import WhatIf
from batchstat.render.screens import buckets as buckets_screen
from batchstat.render.screens import comparison as comparison_screen
from batchstat.render.screens import comparison_details as details
from batchstat.render.screens import profile as profile_screen
from batchstat.render.screens.balance import balance_facts, recommendation, sampler_table
from batchstat.render.screens.balance_details import balance_details
from batchstat.render.screens.layout import Caption, Line, Pasted
from batchstat.render.text import class_name, corpus_name, decimal, one_line, percent, with_share
from batchstat.simulation.balance.report import BalanceReport
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted


def profile_page(profile: Profile, padding: float | None, next_command: str) -> str:
    """Return the HTML page of a profile."""
    result = (*profile_screen.usual_padding(padding), Pasted("next", next_command))
    facts = profile_screen.missing_lines(profile)
    return _page("profile", profile, facts, result, [], profile_document(profile))


def comparison_page(
    comparison: Comparison, profile: Profile | None, command: Callable[[Change], str], panel: WhatIf
) -> str:
    """Return the HTML page of a comparison, with the what-if panel."""
    result = (
        *comparison_screen.comparison_advice(comparison, command),
        comparison_screen.strategy_table(comparison),
        Chart("padding", "Real tokens and padding of an epoch"),
    )
    rows_shown = [comparison.current]
    if comparison.best is not comparison.current:
        rows_shown.append(comparison.best)
    batches = (
        Chart("batches", "The first batches, to scale: each block is a batch"),
        *details.batch_details(comparison),
        *(_first_batches(row) for row in rows_shown),
    )
    tradeoff = Chart("tradeoff", "Compute against how alike the lengths in a batch are")
    shuffling = (tradeoff, *details.cost_details(comparison))
    sections = [
        Section("batches", "Batches", blocks(*batches)),
        Section("shuffling", "Compute and shuffling", blocks(*shuffling)),
        Section("read-ahead", "Read-ahead and learning rate", blocks(*_sweep(comparison))),
    ]
    if comparison.basis.world_size > 1:
        ranks = (Chart("ranks", "Tokens per rank and step"), *details.rank_details(comparison))
        sections.append(Section("ranks", "Ranks", blocks(*ranks)))
    if comparison.current.trained is not None:
        title = "Trained tokens and their weights"
        sections.append(Section("weights", title, blocks(*details.trained_details(comparison))))
    facts = comparison_screen.comparison_facts(comparison)
    document = comparison_document(comparison)
    return _page("compare", profile, facts, result, sections, document, comparison.warnings, panel)


def balance_page(
    report: BalanceReport, profile: Profile | None, command: Callable[[str], str]
) -> str:
    """Return the HTML page of a comparison of samplers."""
    # `seen[i]`: distinct samples drawn up to the end of epoch i, which is counted from 0.
    coverage = [
        (f"{i + 1:,}", *(percent(row.seen[i] / row.corpus_samples) for row in report.samplers))
        for i in range(report.epochs)
    ]
    columns = ("epochs", *(one_line(row.spec, 40) for row in report.samplers))
    result = (
        *recommendation(report, command),
        sampler_table(report),
        Chart("samplers", "Samples of each class that an epoch draws"),
        Chart("coverage", "How much of the corpus is seen over the epochs"),
        table_of(columns, coverage, "Share of the corpus that is seen"),
    )
    sections = [Section("numbers", "All numbers", blocks(*balance_details(report)))]
    facts, document = balance_facts(report), balance_document(report)
    return _page("balance", profile, facts, result, sections, document, report.warnings)


def buckets_page(
    report: BucketReport, profile: Profile | None, command: Callable[[str], str]
) -> str:
    """Return the page of a search for bucket edges."""
    result = (
        *buckets_screen.bucket_advice(report, command),
        Chart("buckets", "Lengths, and the edges of the buckets"),
        buckets_screen.bucket_table(report),
        *([buckets_screen.time_table(report)] if report.times else []),
    )
    rules = (Chart("rules", "What each rule gives"), *buckets_screen.rule_details(report))
    sections = [Section("rules", "Rules", blocks(*rules))]
    facts, document = buckets_screen.bucket_facts(report), buckets_document(report)
    return _page("buckets", profile, facts, result, sections, document, report.warnings)


def _page(
    command: str,
    profile: Profile | None,
    facts: Iterable[RenderableType],
    result: Iterable[RenderableType | Block],
    sections: Sequence[Section],
    document: dict[str, Any],
    warnings: Sequence[Finding] = (),
    panel: WhatIf | None = None,
) -> str:
    """Put a page together, with sections on the corpus where that is at hand."""
    shown_facts = [(line.word, line.text) for line in facts if isinstance(line, Line)]
    sections = (Section("result", "Result", blocks(*result)), *sections)
    paths = []
    if profile is not None:
        paths = [source.path for source in profile.corpus.sources]
        shown_facts = [("corpus", profile_screen.profile_line(profile)), *shown_facts]
        sections = (*sections, *_corpus_sections(profile))
    # The page of a profile has profile.json as its document, and not once more beside it.
    return Page(
        command=command,
        subject=corpus_name(paths),
        facts=tuple(shown_facts),
        sections=sections,
        document=document,
        profile=None if profile is None or command == "profile" else profile_document(profile),
        lengths=None if profile is None else profile.stats,
        what_if=panel,
        warnings=tuple(warnings),
    ).html()


def _corpus_sections(profile: Profile) -> Iterator[Section]:
    """Yield the sections on lengths, trained tokens and classes, as far as they are known."""
    octaves = [(each, *with_share(n, len(profile))) for each, n in profile_screen.octaves(profile)]
    histogram = table_of(("tokens per sample", "samples", "share"), octaves)
    lengths: tuple[RenderableType | Block, ...] = (
        Chart("lengths", "Samples by length; move max_length to see what it truncates"),
        profile_screen.percentile_table(profile),
        Caption("max_length", "what each candidate truncates"),
        profile_screen.truncation_table(profile, "←"),
        *profile_screen.outlier_lines(profile),
        Folded("Histogram as a table", (histogram,)),
    )
    yield Section("lengths", "Lengths", blocks(*lengths))
    if profile.trained is not None:
        line = Line("trained", profile_screen.trained_line(profile))
        trained = blocks(line, profile_screen.trained_table(profile))
        yield Section("trained", "Trained tokens", trained)
    if profile.labels is not None:
        chart = Chart("classes", "Samples of each class")
        classes = blocks(chart, *profile_screen.class_notes(profile), _classes(profile))
        yield Section("classes", "Classes", classes)


def _classes(profile: Profile) -> Table:
    """Return the table of the largest classes, and how many smaller ones it leaves out."""
    largest = profile.classes[:MOST_ENTRIES]
    smaller = len(profile.classes) - len(largest)
    rows = [
        (
            class_name(row.label),
            *with_share(row.count, len(profile)),
            f"{row.tokens / row.count:,.1f}",
        )
        for row in largest
    ]
    note = f"{counted(smaller, 'smaller class', 'smaller classes')} left out" if smaller else ""
    return table_of(("class", "samples", "share", "mean length"), rows, note=note)


def _first_batches(row: StrategyResult) -> Folded:
    """Return a folded table of the batches that the chart draws: their rows, width and padding."""
    # A comparison may be made without the first batches of its rows: then the table is empty.
    rows = []
    if row.first_batches is not None:
        table = BatchTable.of([row.first_batches])
        widths, real_tokens = table.widths.tolist(), table.tokens.tolist()
        for i, row_count in enumerate(table.rows[:MOST_BATCHES].tolist()):
            # The 1 keeps a batch without tokens from a division by 0.
            padding = 1 - real_tokens[i] / max(row_count * widths[i], 1)
            rows.append((f"{i:,}", f"{row_count:,}", f"{widths[i]:,}", percent(padding)))
    title = f"First batches of {row.label} as a table"
    return Folded(title, (table_of(("batch", "rows", "width", "padding"), rows),))


def _sweep(comparison: Comparison) -> Iterator[RenderableType | Block]:
    """Yield a chart and a table of `read_ahead`, then the lines on it and the learning rate."""
    if (sweep := comparison.sweep) is not None:
        yield Chart("readAhead", f"Padding of {sweep.spec} by how many samples are sorted together")
        rows = [
            (
                f"{point.read_ahead:,}",
                percent(point.padding_ratio, 2),
                f"{point.batches:,}",
                decimal(point.grouping.length_homogeneity),
            )
            for point in sweep.points
        ]
        yield table_of(("read_ahead", "padding", "batches", "length homogeneity"), rows)
    yield from details.sorting_details(comparison)
