"""The what-if panel of a page: the strategies of the report with other sizes and ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchstat.calibration.cost_model import CostModel
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import flags, line_to_paste, non_defaults
from batchstat.render.html.blocks import Table
from batchstat.render.screens.comparison import strategy_columns
from batchstat.render.text import percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.nearby import Nearby
from batchstat.words import counted

NO_ROWS = (
    "This page has no other settings to choose from: which part of a corpus in file order is drawn "
    "depends on the strategies that are compared. Run batchstat compare with them."
)


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What the panel shows."""

    notes: tuple[str, ...]  # what its rows describe, and which of them are missing
    table: Table
    data: Mapping[str, Any]


def what_if(
    comparison: Comparison, nearby: Nearby, last_words: Sequence[str], replaced: Mapping[str, Any]
) -> WhatIf:
    """Return the panel: rows of other sizes and ranks, with the choices that lead to each."""
    # A configuration file where it is pasted would change the rows: hence --no-config.
    ending = [*(word for word in last_words if word != "--no-config"), "--no-config"]
    shared_flags = {**_shared_flags(comparison, nearby), **replaced}
    choices = []
    for row in nearby.rows:
        values = {"strategy": row.result.label, **shared_flags, "world_size": row.world_size}
        command = line_to_paste(["batchstat", "compare", *flags(values), *ending])
        size = "its own"  # the strategy has neither a batch size nor a budget
        if row.size is not None:
            key, size_in_report = row.of.size  # such as batch_size, with its value
            size = f"{key} {row.size:,}{' (now)' if row.size == size_in_report else ''}"
        choices.append(
            {
                "strategy": row.of.label,
                "size": size,
                "ranks": counted(row.world_size, "rank"),
                "command": command,
            }
        )
    # The panel opens with the row of the report's best strategy, else with the first row.
    best = (comparison.best.label, comparison.basis.world_size)
    panel_rows = [(row.result.label, row.world_size) for row in nearby.rows]
    first_choice = panel_rows.index(best) if best in panel_rows else 0
    return WhatIf(
        notes=tuple(_notes(comparison, nearby)),
        table=_table(comparison, nearby),
        data={"choices": choices, "first": first_choice, "current": comparison.current.label},
    )


def _shared_flags(comparison: Comparison, nearby: Nearby) -> dict[str, Any]:
    """Return the flags that the commands of all rows share, as values by name."""
    basis, model, device = comparison.basis, comparison.model, comparison.device
    current = comparison.current.request
    settings = non_defaults(basis, Settings)
    keys = {} if model is None else non_defaults(model, CostModel)
    shape = [f"{key}={str(value).lower()}" for key, value in keys.items()]
    # As a flag, the batch size would replace those of frameworks: left out where implied.
    size_by_budget = max(1, basis.tokens_per_batch // basis.widest)
    is_stated_elsewhere = basis.given_batch_size is None or current.sets("batch_size")
    if basis.batch_size == size_by_budget and is_stated_elsewhere:
        del settings["batch_size"]
    return {
        "current": current.spec,
        **settings,
        "model": None if model is None else ",".join(shape),
        # FILE is for the reader to replace: a calibration that was not read from a file has none.
        "calibration": None if device is None else device.file or "FILE",
        "cost_per_hour": None if device is None else device.cost_per_hour,
        "subsample": nearby.share,
    }


def _notes(comparison: Comparison, nearby: Nearby) -> Iterator[str]:
    """Yield the sentences above the table: what its rows are, and why others are missing."""
    if not nearby.rows:
        yield NO_ROWS
        return
    all_samples = len(comparison.source)
    yield (
        f"{counted(len(nearby.rows), 'plan')}, simulated when this page was written: the "
        "strategies of the report with other batch sizes or budgets, and other numbers of ranks. "
        "Speed-ups are over the current setup on as many ranks."
    )
    if nearby.samples < all_samples:
        yield (
            f"Numbers here are an estimate from {percent(nearby.samples / all_samples)} of the "
            f"corpus, {counted(nearby.samples, 'sample')}."
        )
    if nearby.too_slow:
        yield (
            f"{counted(nearby.too_slow, 'plan')} further from the report's would have taken too "
            "long to simulate."
        )
    if nearby.without_batch:
        yield f"{counted(nearby.without_batch, 'plan')} would have no batch."


def _table(comparison: Comparison, nearby: Nearby) -> Table:
    """Return the table in the columns of the comparison, ranks second, largest batch last."""
    results = [row.result for row in nearby.rows]
    columns = strategy_columns(results, nearby.speed_up, comparison)
    columns["largest batch"] = lambda row: f"{row.counts.max_batch_tokens:,}"
    rows = []
    for row in nearby.rows:
        cells = (show(row.result) for show in columns.values())
        standing = "current" if row.result.label == comparison.current.label else ""
        rows.append((standing, (row.result.label, f"{row.world_size:,}", *cells)))
    return Table(caption="", columns=("strategy", "ranks", *columns), rows=tuple(rows))
