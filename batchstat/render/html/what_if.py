"""The what-if panel of a page: rows near those of the comparison, and the command of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchstat.calibration.cost_model import CostModel
from batchstat.errors import counted
from batchstat.planning.settings import Settings
from batchstat.render.command_lines import changed, flags, joined
from batchstat.render.html.blocks import Table
from batchstat.render.screens.comparison import strategy_columns
from batchstat.render.text import percent
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.nearby import Nearby, NearbyRow

NO_ROWS = (
    "This page has no other settings to choose from: which part of a corpus in file order is drawn "
    "depends on the strategies that are compared. Run batchstat compare with them."
)


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What the panel shows.

    Attributes:
        notes: what its rows describe, and which of them are missing.
        table: the rows; each begins with its strategy and its number of ranks.
        data: for the script: what is chosen to get each row of the table, and its command.
    """

    notes: tuple[str, ...]
    table: Table
    data: Mapping[str, Any]


def what_if(
    comparison: Comparison, found: Nearby, words: Sequence[str], given: Mapping[str, Any]
) -> WhatIf:
    """Return the panel of a comparison.

    Args:
        comparison: the report.
        found: the rows near those of the report.
        words: those that end a command: the corpus, the results folder.
        given: what a command has in place of what the report says, by the names of flags: the file
            of the current setup, the name of the model.
    """
    # A reader of the page may have a configuration of their own.
    ending = [*(word for word in words if word != "--no-config"), "--no-config"]
    shared = {**_shared(comparison, found), **given}
    choices = []
    for near in found.rows:
        own = {"strategy": near.result.label, **shared, "world_size": near.world_size}
        command = joined(["batchstat", "compare", *flags(own), *ending])
        choices.append(
            {
                "strategy": near.of.label,
                "size": _size(near),
                "ranks": counted(near.world_size, "rank"),
                "command": command,
            }
        )
    best = (comparison.best.label, comparison.basis.world_size)
    plans = [(near.result.label, near.world_size) for near in found.rows]
    first = plans.index(best) if best in plans else 0
    return WhatIf(
        notes=tuple(_notes(comparison, found)),
        table=_table(comparison, found),
        data={"choices": choices, "first": first, "current": comparison.current.label},
    )


def _size(near: NearbyRow) -> str:
    """Return the batch size or budget of a row, to choose it by."""
    if near.size is None:
        return "its own"
    key, own = near.of.size
    return f"{key} {near.size:,}{' (now)' if near.size == own else ''}"


def _shared(comparison: Comparison, found: Nearby) -> dict[str, Any]:
    """Return what every command has, by the names of flags: the settings that are not at their
    defaults, and those that follow from other rows of the report.
    """
    basis, model, device = comparison.basis, comparison.model, comparison.device
    current = comparison.current.request
    settings = changed(basis, Settings)
    follows = basis.batch_size == max(1, basis.tokens_per_batch // basis.widest)
    if follows and (basis.given_batch_size is None or current.sets("batch_size")):
        del settings["batch_size"]  # given, it would replace the usual ones of frameworks
    return {
        "current": current.spec,
        **settings,
        "model": None if model is None else _shape(model),
        "calibration": None if device is None else device.file or "FILE",
        "cost_per_hour": None if device is None else device.cost_per_hour,
        "subsample": found.share,
    }


def _shape(model: CostModel) -> str:
    """Return a model as `--model` reads it."""
    shape = changed(model, CostModel)
    return ",".join(f"{name}={str(value).lower()}" for name, value in shape.items())


def _notes(comparison: Comparison, found: Nearby) -> Iterator[str]:
    if not found.rows:
        yield NO_ROWS
        return
    all_samples = len(comparison.source)
    yield (
        f"{counted(len(found.rows), 'plan')}, simulated when this page was written: the strategies "
        "of the report with other batch sizes or budgets, and other numbers of ranks. Speed-ups "
        "are over the current setup on as many ranks."
    )
    if found.samples < all_samples:
        yield (
            f"Numbers here are an estimate from {percent(found.samples / all_samples)} of the "
            f"corpus, {counted(found.samples, 'sample')}."
        )
    if found.too_slow:
        yield (
            f"{counted(found.too_slow, 'plan')} further from the report's would have taken too "
            "long to simulate."
        )
    if found.without_batch:
        yield f"{counted(found.without_batch, 'plan')} would have no batch."


def _table(comparison: Comparison, found: Nearby) -> Table:
    results = [near.result for near in found.rows]
    columns = strategy_columns(results, found.speed_up, comparison)
    columns["largest batch"] = lambda row: f"{row.counts.max_batch_tokens:,}"
    rows = []
    for near in found.rows:
        cells = (show(near.result) for show in columns.values())
        standing = "current" if near.result.label == comparison.current.label else ""
        rows.append((standing, (near.result.label, f"{near.world_size:,}", *cells)))
    return Table("", ("strategy", "ranks", *columns), tuple(rows))
