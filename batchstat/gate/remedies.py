"""For an exceeded limit, a change of the training that keeps it; never of its description alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchstat.documents.check import Remedy
from batchstat.documents.comparison import simulation_document
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.outcome import CheckedReport, Outcome
from batchstat.gate.paths import value_at
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.results import Simulation
from batchstat.trainers.preflight.changes import CurrentTraining, changes_of_name

Report = Mapping[str, Any]

Written = Callable[[Change, Mapping[str, Any]], tuple[str, str]]
"""Returns a change as its user writes it, and what of the check follows: `Remedy.settings`."""

_MORE_LOST = 0.0005  # share of tokens truncated or dropped in addition that is worth mentioning
_MUCH_LARGER = 1.1  # a largest batch grown by this factor is worth mentioning


def with_remedies(
    now: CheckedReport, outcomes: Sequence[Outcome], describe: Written, trained: CurrentTraining
) -> Iterator[Outcome]:
    """Yield the outcomes, exceeded ones with the change that breaks the fewest other limits."""
    kept = [outcome for outcome in outcomes if outcome.kept]
    # All other numbers are of the corpus alone, which no change of the training changes.
    exceeded = [
        outcome
        for outcome in outcomes
        if not outcome.kept and outcome.limit.path.startswith("strategy.")
    ]
    reports = list(_changes_with_reports(now, trained)) if exceeded else []
    for outcome in outcomes:
        helpful = [
            (change, report, _exceeded(kept, report))
            for change, report in reports
            if outcome in exceeded and not _exceeded([outcome], report)
        ]
        if not helpful:
            yield outcome
            continue
        # Of several that break as few, the first: it changes the training least.
        change, report, broken = min(helpful, key=lambda each: len(each[2]))
        # Keys of the trainer's configuration, or the strategy that is then the current setup, with
        # the size that it has here: from the settings, the current setup may get another one.
        # `key` is batch_size or tokens_per_batch; `size` is None if the row has neither.
        key, size = change.row.size
        strategy = change.row.request.row
        is_given = change.row.request.sets(key) or getattr(now.settings, key) == size
        # Batches of the user's own, which are no `StrategySpec`, have no parameters.
        if isinstance(strategy, StrategySpec) and size is not None and not is_given:
            strategy = strategy.with_parameter(key, size)
        settings: Mapping[str, Any] = {"current": strategy.text}
        if trained.trainer is not None and change.keys is not None:
            settings = change.keys
        written, then = describe(change, settings)
        remedy = Remedy(
            change=written,
            then=then,
            settings=settings,
            value=value_at(report, outcome.limit.path),
            costs=tuple(_side_effects(outcome.limit, change, now.report, report, broken)),
        )
        yield replace(outcome, remedy=remedy)


def _changes_with_reports(
    now: CheckedReport, trained: CurrentTraining
) -> Iterator[tuple[Change, Report]]:
    """Yield changes with their reports: those that save compute, others, then packing."""
    changes = simulate_candidates(
        resolve_inputs(now.profile, keep=now.settings.keep_labels),
        now.settings,
        strategies=trained.strategies,
        current=now.current,
        trainer=changes_of_name if trained.trainer is None else trained.trainer.changes,
        takes_sampler=trained.takes_sampler,
        device=now.device,
    ).changes
    found = [*changes.ranked, *changes.others]
    # Packing needs attention that keeps samples apart: a trainer's own packing has it.
    if changes.packed is not None and changes.packed.keys is not None:
        found.append(changes.packed)
    # A recorded script can only get arguments of its own: changes with a line to paste come first.
    if not isinstance(now.current, StrategySpec):
        found.sort(key=lambda change: not change.line)
    for change in found:
        row = change.row
        simulation = Simulation(row.request.settings, row, warnings=(), device=now.device)
        yield change, {**now.report, **simulation_document(simulation)}


def _exceeded(outcomes: Iterable[Outcome], report: Report) -> list[Limit]:
    """Return the limits that a report exceeds; one on a number that it lacks is exceeded, too."""
    limits = []
    for outcome in outcomes:
        try:
            value = value_at(report, outcome.limit.path)
        except BatchstatError:
            limits.append(outcome.limit)
        else:
            if not replace(outcome, value=value).kept:
                limits.append(outcome.limit)
    return limits


def _side_effects(
    exceeded: Limit, change: Change, report: Report, new_report: Report, broken: Iterable[Limit]
) -> Iterator[str]:
    """Yield unexpected side effects: steps, larger batches, losses, other limits exceeded."""
    old, new = report["strategy"], new_report["strategy"]
    if new["steps"] != old["steps"]:
        yield f"{new['steps']:,} steps instead of {old['steps']:,}"
    if new["max_batch_tokens"] >= _MUCH_LARGER * old["max_batch_tokens"]:
        yield (
            f"a largest batch of {new['max_batch_tokens']:,} tokens instead of "
            f"{old['max_batch_tokens']:,}"
        )
    for kind in ("truncated", "dropped"):
        newly_lost = new[f"{kind}_ratio"] - old[f"{kind}_ratio"]
        # Not where the exceeded limit is on this number: the remedy says it.
        if newly_lost >= _MORE_LOST and not exceeded.path.startswith(f"strategy.{kind}"):
            yield f"{100 * new[f'{kind}_ratio']:.2f}% of the tokens {kind}"
    # Attention must keep samples apart that share a row.
    if change.row.packs_rows and not change.current.packs_rows:
        yield "varlen attention"
    for limit in broken:
        yield f"{limit.name} exceeded"
