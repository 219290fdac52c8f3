"""Changes of the training to try for an exceeded limit, each with the report that it leads to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from batchstat.documents.comparison import simulation_document
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.outcome import CheckedReport
from batchstat.gate.setting_changes import changes_of, helps_by_sorting, may_grow
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
class Laboratory:
    """What is simulated for remedies, each once.

    Attributes:
        now: the numbers now, and what they were simulated from.
        trainer: the trainer's own configuration; None where it is not known.
    """

    now: CheckedReport
    trainer: Trainer | None

    def trials(self, limit: Limit) -> Iterator[Trial]:
        """Yield changes for a limit on a number of the strategy: of settings, smaller ones first,
        then, where other batches may help, the changes that every limit has in common.
        """
        now = self.now
        # Batches that were made elsewhere have no settings to change.
        if isinstance(now.current, StrategySpec):
            by_keys = self.trainer is not None
            for changes in changes_of(limit, now.profile, now.current, now.settings, by_keys):
                trial = self._of_settings(changes)
                # Larger batches may not fit: they are a remedy only for what needs longer samples.
                if trial is not None and (may_grow(limit) or not self._is_larger(trial.report)):
                    yield trial
        if helps_by_sorting(limit):
            yield from self._ranked

    def _of_settings(self, changes: Mapping[str, Any]) -> Trial | None:
        """Simulate a change of settings, which a trainer's configuration makes by its own keys.
        None where the change contradicts another setting, has no key, or leaves no batch.
        """
        now, line = self.now, ""
        try:
            if self.trainer is None:
                row, profile = changes.get("current", now.current), now.profile
                others = {key: value for key, value in changes.items() if key != "current"}
                settings = replace(now.settings, **others)
            else:
                changed = self.trainer.with_settings(changes)
                if changed is None:
                    return None
                # Without a profile of its own, the change leaves the samples as they are.
                row, profile = changed.strategy, changed.profile or now.profile
                settings, changes, line = changed.settings, changed.keys, changed.line
            simulation = simulate(profile, row, settings, now.device)
        except BatchstatError:
            return None
        # In text, as JSON and the user's configuration have it.
        written = {
            key: value.text if isinstance(value, StrategySpec) else value
            for key, value in changes.items()
        }
        return Trial(changes=written, line=line, report=self._report(simulation))

    @cached_property
    def _ranked(self) -> list[Trial]:
        """What may be changed whatever the limit is: first the changes that save compute, the best
        of them first, then those that save none, but may keep the limit.
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
        # Packing needs attention that keeps samples apart. It is a remedy only by the trainer's own
        # argument.
        if changes.packed is not None and changes.packed.keys is not None:
            to_try.append(changes.packed)
        trials = []
        for change in to_try:
            row, keys = change.row, change.keys
            # Without keys of a configuration, the change is another current setup.
            if self.trainer is None or keys is None:
                keys = {"current": _with_size(row, now.settings).text}
            simulation = Simulation(row.request.settings, row, warnings=(), device=now.device)
            report = self._report(simulation)
            trials.append(Trial(changes=keys, line=change.line, change=change, report=report))
        # Into a script that was recorded, only its own arguments can be pasted: they come first.
        if not isinstance(now.current, StrategySpec):
            trials.sort(key=lambda trial: not trial.line)
        return trials

    def _report(self, simulation: Simulation) -> Report:
        """Return the present report with the numbers of another simulation in it."""
        return {**self.now.report, **simulation_document(simulation)}

    def _is_larger(self, report: Report) -> bool:
        """Return whether more batches exceed the budget than now, or one is above both the budget
        and the largest batch now.
        """
        new, old = report["strategy"], self.now.report["strategy"]
        peak = max(self.now.report["basis"]["tokens_per_batch"], old["max_batch_tokens"])
        more: bool = new["over_budget_batches"] > old["over_budget_batches"]
        return more or new["max_batch_tokens"] > peak


def _with_size(row: StrategyResult, settings: Settings) -> NamedRow:
    """Return a row's strategy with its batch size or budget written into it: `bucketed` becomes
    `bucketed:batch_size=8`.

    That size follows from the current setup beside which the row was simulated. Where the row
    becomes the current setup itself, it would follow from the budget.
    """
    # `row.size` is the name of a setting, such as batch_size, and its value. The value is None
    # if the row has neither a batch size nor a budget.
    (key, size), named = row.size, row.request.row
    if size is None or row.request.sets(key) or getattr(settings, key) == size:
        return named
    # Batches of the user's own have no parameters.
    return named.with_parameter(key, size) if isinstance(named, StrategySpec) else named
