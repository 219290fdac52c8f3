"""Changes of the training to try for an exceeded limit, each with the report that it leads to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from batchstat.documents.comparison import simulation_document
from batchstat.errors import BatchstatError
from batchstat.gate.limits import Limit
from batchstat.gate.setting_changes import changes_of, helps_by_sorting, may_grow
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import NamedRow, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare.candidates import simulate_candidates
from batchstat.simulation.compare.changes import Change
from batchstat.simulation.compare.compare import simulate
from batchstat.simulation.compare.named_rows import ParsedRow
from batchstat.simulation.device import Device
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
        profile: the samples that are trained.
        current: the current setup.
        settings: the settings, as given.
        trainer: the trainer's own configuration; None where it is not known.
        device: the calibrated device that trains; None without one.
        report: the numbers now.
    """

    profile: Profile
    current: ParsedRow
    settings: Settings
    trainer: Trainer | None
    device: Device | None
    report: Report

    def trials(self, limit: Limit, ranked: "list[Trial]") -> Iterator[Trial]:
        """Yield changes for a limit on a number of the strategy, smaller ones first.

        Args:
            limit: the limit.
            ranked: the changes that help training anyhow, the best first; filled by the first limit
                that asks for them.
        """
        for changes in self._changes_of_settings(limit):
            trial = self._of_settings(changes)
            if trial is not None and (may_grow(limit) or not self._is_larger(trial.report)):
                yield trial
        if helps_by_sorting(limit):
            if not ranked:
                ranked += self._ranked()
                # Of a script that was recorded, its own arguments are what can be pasted.
                if not isinstance(self.current, StrategySpec):
                    ranked.sort(key=lambda trial: not trial.line)
            yield from ranked

    def _changes_of_settings(self, limit: Limit) -> Iterator[Mapping[str, Any]]:
        # Batches that were made elsewhere have no settings.
        if isinstance(self.current, StrategySpec):
            by_keys = self.trainer is not None
            yield from changes_of(limit, self.profile, self.current, self.settings, by_keys)

    def _of_settings(self, changes: Mapping[str, Any]) -> Trial | None:
        """Return a change of settings; of a trainer's configuration, by its own keys."""
        try:
            if self.trainer is None:
                others = {key: value for key, value in changes.items() if key != "current"}
                settings = replace(self.settings, **others)
                current = changes.get("current", self.current)
                simulation = simulate(self.profile, current, settings, self.device)
                return Trial(changes=_as_text(changes), report=self._report(simulation))
            changed = self.trainer.with_settings(changes)
            if changed is None:
                return None
            profile = changed.profile or self.profile
            simulation = simulate(profile, changed.strategy, changed.settings, self.device)
        except BatchstatError:
            return None  # mutually exclusive, or it leaves no batch
        return Trial(changes=changed.keys, line=changed.line, report=self._report(simulation))

    def _ranked(self) -> Iterator[Trial]:
        found = simulate_candidates(
            resolve_inputs(self.profile, keep=self.settings.keep_labels),
            self.settings,
            current=self.current,
            trainer=changes_of_name if self.trainer is None else self.trainer.changes,
            device=self.device,
        )
        changes = found.changes
        packing = [each for each in (changes.packed,) if each is not None and each.keys is not None]
        for each in (*changes.ranked, *changes.others, *packing):
            row = each.row
            is_own = self.trainer is not None and each.keys is not None
            sets = each.keys if is_own else {"current": _alone(row, self.settings).text}
            report = self._report(Simulation(row.request.settings, row, (), self.device))
            yield Trial(changes=sets or {}, line=each.line, change=each, report=report)

    def _report(self, simulation: Simulation) -> Report:
        return {**self.report, **simulation_document(simulation)}

    def _is_larger(self, report: Report) -> bool:
        """Return whether more batches exceed the budget, or one exceeds it and the present peak."""
        new, old = report["strategy"], self.report["strategy"]
        peak = max(self.report["basis"]["tokens_per_batch"], old["max_batch_tokens"])
        more: bool = new["over_budget_batches"] > old["over_budget_batches"]
        return more or new["max_batch_tokens"] > peak


def _as_text(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return changes with the current setup as a configuration has it."""
    return {
        key: value.text if isinstance(value, StrategySpec) else value
        for key, value in changes.items()
    }


def _alone(row: StrategyResult, settings: Settings) -> NamedRow:
    """Return a row's strategy with the size that it has beside the current setup, which would else
    be another where it is the current setup itself.
    """
    (key, size), named = row.size, row.request.row
    if size is None or row.request.sets(key) or getattr(settings, key) == size:
        return named
    return named.with_parameter(key, size) if isinstance(named, StrategySpec) else named
