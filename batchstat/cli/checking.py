"""Checks as commands run them: count a corpus, simulate it, compare with its limits."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import typer

from batchstat.cli.inputs import Inputs, configuration, inputs
from batchstat.cli.pasted import written
from batchstat.cli.profiles import count, refuse_counting, warn_of_left_out
from batchstat.cli.streams import say
from batchstat.documents.comparison import report_json, simulation_json
from batchstat.documents.schema import report_schema
from batchstat.errors import InputError, OptionError
from batchstat.gate.baseline import Baseline, load_baselines
from batchstat.gate.check import Check, Outcome, judge
from batchstat.gate.limits import Limit, read_limits
from batchstat.gate.paths import numbers, value_at
from batchstat.gate.remedies import Failing, find_remedy
from batchstat.planning.settings import Settings
from batchstat.profiling.parquet import load_profile
from batchstat.profiling.profile import Profile
from batchstat.profiling.staleness import changes
from batchstat.render.text import age, counted
from batchstat.simulation.compare import parse_strategies, simulate

DEFAULT_STRATEGY = "token-budget"
NO_INCREASE = "a default, which --max-increase changes"

_IN_BASELINE = ("corpus.samples", "corpus.unreadable", "lengths.", "strategy.", "class_ratio")


@dataclass(frozen=True)
class Measured:
    """The numbers of one check.

    Attributes:
        given: its settings and limits.
        profile: the profile of its corpus.
        report: as in `check.json`.
        warnings: messages about the numbers.
    """

    given: Inputs
    profile: Profile
    report: dict[str, Any]
    warnings: tuple[str, ...]


def chosen(context: typer.Context) -> list[Inputs]:
    """Return the settings of the checks to run: those asked for, or all in the configuration.

    Raises:
        OptionError: an unknown check, or invalid settings of one.
        InputError: the configuration cannot be read.
    """
    found = configuration(context)
    names = context.params["check"]
    if names:
        checks = [found.check(name) for name in dict.fromkeys(names)]
    elif context.params["corpus"]:
        checks = [found.shared]
    else:
        checks = list(found.checks or (found.shared,))
    every = [inputs(context, check) for check in checks]
    for given in every:
        basis = given.settings.decide(longest=1, stated_max=None)
        parse_strategies([strategy_of(given)], basis)
        _ = given.reading
    return every


def strategy_of(given: Inputs) -> str:
    """Return the strategy that limits apply to, as it is written."""
    strategy: str = given.get("strategy", DEFAULT_STRATEGY)
    return strategy


def measured(given: Inputs, context: typer.Context) -> Measured:
    """Return the numbers of a check, always of its whole corpus.

    Raises:
        OptionError: options that do not fit the corpus's formats.
        InputError: no corpus, a stale profile, or any other reason why there is no answer.
    """
    if given.corpus:
        profile, _ = count(context, given)
    else:
        profile = _kept(given, context)
    if profile.corpus.failed:
        raise InputError(
            f"the profile is partial ({profile.corpus.failed[0]}): fix that, and rerun batchstat "
            "profile without --allow-partial"
        )
    if profile.corpus.unreadable and not _is_limited(profile, given):
        records = counted(profile.corpus.unreadable, "record")
        raise InputError(
            f"{records} could not be read, so the numbers would not cover the whole corpus: fix "
            "the corpus, or set corpus.unreadable = {max = N} in the limits"
        )
    warn_of_left_out(profile)
    simulation = simulate(profile, strategy_of(given), given.settings)
    warnings = tuple(warning.message for warning in simulation.warnings)
    return Measured(given, profile, report_json(profile, simulation), warnings)


def _is_limited(profile: Profile, given: Inputs) -> bool:
    """Return whether a limit covers bad records: all of them, or each kind that was found."""
    paths = {limit.path for limit in given.held if limit.bound == "max"}
    found = {f"corpus.skipped.{reason}" for reason in profile.corpus.faulty}
    return "corpus.unreadable" in paths or found <= paths


def _kept(given: Inputs, context: typer.Context) -> Profile:
    """Return the profile in the results folder, for a check without a corpus."""
    refuse_counting(context)
    folder: Path = context.params["output"]
    try:
        profile = load_profile(folder)
    except InputError as error:
        raise InputError(f"no corpus given, here or in a configuration, and {error}") from None
    for change in changes(profile):
        raise InputError(f"{change}: name the corpus, or rerun batchstat profile")
    say(f"profile of {age(profile.created, datetime.now(UTC))} in {folder.as_posix()}")
    read = {**asdict(profile.corpus.options)}
    read["tokenizer"] = profile.tokenizer.name if profile.tokenizer else None
    for key, setting in given.values.items():
        if key in read and setting.value != read[key]:
            raise InputError(
                f"the profile in {folder.as_posix()} has another {key.replace('_', '-')} than "
                f"{setting.origin} sets: name the corpus, or rerun batchstat profile"
            )
    return profile


def answer(given: Inputs, context: typer.Context) -> Check:
    """Run a check: compare with its limits, with a remedy for each exceeded one; or report why
    there is no answer.

    Raises:
        OptionError: options that do not fit the corpus's formats.
    """
    strategy = strategy_of(given)
    try:
        baseline = _baseline(given)
        found = measured(given, context)
        if baseline is not None and (other := baseline.difference(as_baseline(found))):
            raise InputError(
                f"{given.get('baseline').as_posix()} is not comparable ({other}): rerun batchstat "
                "baseline save"
            )
        outcomes = judge(found.report, limits_of(given), report_schema(), baseline)
    except InputError as error:
        return Check(name=given.name, strategy=strategy, report=None, error=str(error))
    return Check(
        name=given.name,
        strategy=strategy,
        report=found.report,
        outcomes=_with_remedies(found, outcomes),
        warnings=found.warnings,
    )


def _baseline(given: Inputs) -> Baseline | None:
    path = given.get("baseline")
    if path is None:
        return None
    known = load_baselines(path)
    if given.name not in known:
        raise InputError(
            f"{path.as_posix()} has no check {given.name!r} (has: {', '.join(known)}): name one of "
            "them with --check, or run batchstat baseline save"
        )
    return known[given.name]


def _with_remedies(found: Measured, outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    given = found.given

    @cache  # limits try the same changes
    def simulated(strategy: str, settings: Settings) -> dict[str, Any]:
        return {**found.report, **simulation_json(simulate(found.profile, strategy, settings))}

    def remedied(outcome: Outcome) -> Outcome:
        failing = Failing(
            limit=outcome.limit,
            value=outcome.value,
            before=outcome.before,
            kept=[(each.limit, each.before) for each in outcomes if each.kept],
            profile=found.profile,
            strategy=strategy_of(given),
            settings=given.settings,
            report=found.report,
        )
        remedy = find_remedy(
            failing, report_schema(), simulated, lambda changes: written(given, changes)
        )
        return replace(outcome, remedy=remedy)

    return tuple(outcome if outcome.kept else remedied(outcome) for outcome in outcomes)


def require_limits(every: list[Inputs]) -> None:
    """Raise OptionError for a check without limits, which would always pass, or for a limit on a
    difference without a baseline.
    """
    for given in every:
        if not limits_of(given):
            where = f"check {given.name!r} has" if len(every) > 1 else "there are"
            raise OptionError(
                f"{where} no limits to check: pass --max-padding 5% or --baseline FILE, or run "
                "batchstat init to write limits to the configuration"
            )
        differences = [limit for limit in given.held if limit.is_difference]
        if differences and given.get("baseline") is None:
            limit = differences[0]
            raise OptionError(
                f"{limit.name} (set in {limit.origin}) limits a difference, but there is no "
                "baseline: run batchstat baseline save, and pass --baseline FILE"
            )


def limits_of(given: Inputs) -> list[Limit]:
    """Return the limits in force; with a baseline, padding must not rise unless one allows it."""
    limits = given.limits
    if given.get("baseline") is not None:
        limits = read_limits({"max-increase": 0}, report_schema(), NO_INCREASE) | dict(limits)
    return [limit for limit in limits.values() if limit is not None]


def as_baseline(found: Measured) -> Baseline:
    """Return the numbers of a check as a baseline, with everything they depend on except the
    corpus.
    """
    tokenizer, given, schema = found.report["tokenizer"], found.given, report_schema()
    limited = [limit.path for limit in given.held]
    paths = [path for path, _ in numbers(schema) if _is_kept(path)]
    kept = {}
    for path in dict.fromkeys([*paths, *limited]):
        try:
            kept[path] = value_at(found.report, path, schema)
        except InputError:
            continue  # such as the ratio of classes in a corpus without labels
    return Baseline(
        {}
        if tokenizer is None
        else {key: tokenizer[key] for key in ("name", "digest", "max_length")},
        _as_read(
            {
                "strategy": strategy_of(given),
                **asdict(given.settings),
                **asdict(found.profile.corpus.options),
            }
        ),
        kept,
    )


def _is_kept(path: str) -> bool:
    return "[" not in path and path.startswith(_IN_BASELINE)


def _as_read(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they would be read back from JSON."""
    return {key: list(each) if isinstance(each, tuple) else each for key, each in settings.items()}
