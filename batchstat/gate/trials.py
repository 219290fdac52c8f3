"""Changes of the training to try for an exceeded limit, each with the report that it leads to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from batchstat.documents.comparison import simulation_document
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.outcome import CheckedReport
from batchstat.gate.setting_changes import changes_of, depends_on_batching, may_grow_batches
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import NamedRow, StrategySpec
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.compare.compare import simulate
from batchstat.simulation.results import Simulation, StrategyResult
from batchstat.trainers.preflight.changes import Trainer, changes_of_name

Report = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change of the training, and the report that it leads to.

    Attributes:
        changes: the values that it sets, by the names of settings and `current`, or of keys of the
            trainer's configuration.
        line: these keys as a line to paste; empty without a trainer's configuration.
        change: what `batchstat.simulation.compare.changes` says of it; None for a change of
            settings.
        report: the numbers with it.
    """

    changes: Mapping[str, Any]
    line: str = ""
    change: Change | None = None
    report: Report


@dataclass(frozen=True, kw_only=True)
class TrialSimulator:
    """Simulates changes of what a check trains, in search of remedies for its exceeded limits.

    Attributes:
        now: the numbers now, and what they were simulated from.
        trainer: the trainer's own configuration; None where it is not known.
    """

    now: CheckedReport
    trainer: Trainer | None

    def trials(self, limit: Limit) -> Iterator[Trial]:
        """Yield simulated changes for a limit on a number of the strategy: changes of settings that
        affect this number, smaller ones first; then the changes that are tried for every limit on a
        number that other batches may change.
        """
        now = self.now
        # Only a strategy has settings: the batches of a recording or of the user's own have none.
        if isinstance(now.current, StrategySpec):
            by_keys, may_grow = self.trainer is not None, may_grow_batches(limit)
            for changes in changes_of(limit, now.profile, now.current, now.settings, by_keys):
                trial = self._try_settings(changes)
                # Larger batches may not fit in memory: only what needs longer samples gets them.
                if trial is not None and (may_grow or not self._has_larger_batches(trial.report)):
                    yield trial
        if depends_on_batching(limit):
            yield from self._common_trials

    def _try_settings(self, changes: Mapping[str, Any]) -> Trial | None:
        """Simulate changes of settings; with a trainer, they are made by keys of its configuration.
        Return None where they contradict another setting, have no key, or leave no batch.
        """
        now, line = self.now, ""
        try:
            if self.trainer is None:
                # `current` names another strategy, all other keys are settings.
                row, profile = changes.get("current", now.current), now.profile
                others = {key: value for key, value in changes.items() if key != "current"}
                settings = replace(now.settings, **others)
            else:
                changed = self.trainer.change_of_settings(changes)
                if changed is None:
                    return None
                # Without a profile of its own, the change leaves the samples as they are now.
                row, profile = changed.strategy, changed.profile or now.profile
                settings, changes, line = changed.settings, changed.keys, changed.line
            simulation = simulate(profile, row, settings, now.device)
        except BatchstatError:
            return None
        # JSON and the user's configuration have a strategy as text.
        changes_as_text = {
            key: value.text if isinstance(value, StrategySpec) else value
            for key, value in changes.items()
        }
        return Trial(changes=changes_as_text, line=line, report=self._report(simulation))

    @cached_property
    def _common_trials(self) -> list[Trial]:
        """The changes that a comparison finds, which are tried for every limit: first those that
        save compute, the best of them first, then those that save none.
        """
        now = self.now
        changes = simulate_candidates(
            resolve_inputs(now.profile, keep=now.settings.keep_labels),
            now.settings,
            current=now.current,
            trainer=changes_of_name if self.trainer is None else self.trainer.changes,
            device=now.device,
        ).changes
        to_try = [*changes.ranked, *changes.others]
        # Packing needs attention that keeps samples apart: only a trainer with an argument for
        # packing has that.
        if changes.packed is not None and changes.packed.keys is not None:
            to_try.append(changes.packed)
        trials = []
        for change in to_try:
            row, keys = change.row, change.keys
            # A change without keys of a trainer's configuration names another strategy instead.
            if self.trainer is None or keys is None:
                keys = {"current": _with_size_written(row, now.settings).text}
            simulation = Simulation(row.request.settings, row, warnings=(), device=now.device)
            report = self._report(simulation)
            trials.append(Trial(changes=keys, line=change.line, change=change, report=report))
        # A recorded script can only get arguments of its own: changes with a line to paste come
        # first.
        if not isinstance(now.current, StrategySpec):
            trials.sort(key=lambda trial: not trial.line)
        return trials

    def _report(self, simulation: Simulation) -> Report:
        """Return the present report with the numbers of another simulation in it."""
        return {**self.now.report, **simulation_document(simulation)}

    def _has_larger_batches(self, report: Report) -> bool:
        """Return whether a report has more batches over budget than the present one, or a batch
        that is larger than both the budget and the largest batch now.
        """
        new, old = report["strategy"], self.now.report["strategy"]
        largest_allowed = max(self.now.report["basis"]["tokens_per_batch"], old["max_batch_tokens"])
        more_over_budget: bool = new["over_budget_batches"] > old["over_budget_batches"]
        return more_over_budget or new["max_batch_tokens"] > largest_allowed


def _with_size_written(row: StrategyResult, settings: Settings) -> NamedRow:
    """Return a row's strategy with its batch size or budget written into it: `bucketed` becomes
    `bucketed:batch_size=8`.

    A row that is compared gets its size from the current setup. Without it in the text, the same
    strategy would get another size from the settings once it is the current setup itself.
    """
    # `key` is batch_size or tokens_per_batch; `size` is None if the row has neither.
    key, size = row.size
    strategy = row.request.row
    is_given = size is None or row.request.sets(key) or getattr(settings, key) == size
    # Batches of the user's own, which are no `StrategySpec`, have no parameters.
    if is_given or not isinstance(strategy, StrategySpec):
        return strategy
    return strategy.with_parameter(key, size)
