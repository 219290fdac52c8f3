"""The checks that a command runs: chosen, counted, and compared with their limits."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from batchstat.cli.device import device_keywords, read_device
from batchstat.cli.inputs import Inputs, read_configuration, read_inputs
from batchstat.cli.options import Options
from batchstat.cli.pasted import lines_of_remedy
from batchstat.cli.profiles import count, profile_findings, refuse_counting
from batchstat.cli.records import Checks
from batchstat.cli.streams import say
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.gate.base import Base
from batchstat.gate.check import check
from batchstat.gate.outcome import Check
from batchstat.planning.settings import DEFAULT_CURRENT
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.parquet import load_profile
from batchstat.profiling.profile import Profile
from batchstat.profiling.staleness import changes
from batchstat.render.text import age

_NO_CURRENT_SETUP = (
    f"the limits are held against {DEFAULT_CURRENT}, as nothing names what you train with: add "
    "--current, or current to the configuration: a strategy, a trainer's name or its file"
)


def chosen_checks(options: Options) -> list[Inputs]:
    """Return the settings of each check to run: those that `--check` names; else one for the corpus
    on the command line; else all checks of the configuration. Every setting is read here, so that a
    wrong one is reported before any corpus is counted. Raises OptionError: an unknown check, or
    invalid settings; InputError: the configuration or a calibration cannot be read.
    """
    configuration = read_configuration(options)
    names = options.read(Checks).check
    if names:
        checks = [configuration.check(name) for name in dict.fromkeys(names)]  # each name once
    elif "corpus" in options.given:
        # Named checks have corpora of their own: this one has the settings that all checks share.
        checks = [configuration.shared]
    else:
        checks = list(configuration.checks or (configuration.shared,))
    chosen = [read_inputs(options, check) for check in checks]
    # Read only to raise for a wrong value. A check that runs reads its settings again.
    for inputs in chosen:
        settings = inputs.settings
        if inputs.observed is None:  # a recording has batches instead of a strategy
            (inputs.current or StrategySpec.of(DEFAULT_CURRENT)).checked(settings)
        inputs.read(CorpusOptions)
        read_device(inputs)
    return chosen


def run_check(inputs: Inputs, base_of: Callable[[Inputs], Base | None]) -> Check:
    """Run a check. Where its input has no answer, the check holds the error, so that the other
    checks still run. Raises OptionError for options that do not fit the corpus.
    """
    try:
        base = base_of(inputs)
        profile = profile_of_check(inputs)
        training = inputs.training(profile)
        samples = training.profile  # without those that a trainer leaves out
        all_kept = len(samples) == len(profile) and samples.is_indexed
        checked = check(
            None,
            inputs.limits_in_force,
            current=training,
            base=base,
            name=inputs.name,
            # Called where a limit fails: returns what the user writes to make a change.
            written=partial(lines_of_remedy, inputs, all_kept=all_kept),
            **device_keywords(inputs),
        )
        findings = [*_input_findings(inputs, profile), *checked.warnings]
        if base is not None and base.check is None:
            nothing = f"{base.name} has nothing to compare with: {base.why}"
            findings.insert(0, Finding("check/no-base", nothing))
        if training.row is None:  # neither a strategy nor a trainer is named
            findings.insert(0, Finding("check/no-current", _NO_CURRENT_SETUP))
        return replace(checked, warnings=inputs.shown(findings))
    except InputError as error:
        return Check(name=inputs.name, strategy=inputs.current_text, report=None, error=error)


def profile_of_check(inputs: Inputs) -> Profile:
    """Return the profile of a check's recording, else of its corpus, else of the results folder."""
    run = None if inputs.observed is None else inputs.observed.run
    if inputs.observed is not None and run is not None:
        run_age = age(run.created, datetime.now(UTC))
        say(f"recording of {run.command or run.program}, {run_age}, in {run.folder}")
        return inputs.observed.profile
    return count(inputs)[0] if inputs.corpus else _stored_profile(inputs)


def _input_findings(inputs: Inputs, profile: Profile) -> Iterator[Finding]:
    """Yield findings about the recording that is the current setup, else about the whole corpus."""
    run = None if inputs.observed is None else inputs.observed.run
    if run is None:
        yield from profile_findings(profile)
        return
    now = datetime.now(UTC)
    is_old = now - datetime.fromisoformat(run.created) > timedelta(days=1)
    # No warning on CI: the workflow that init writes records again before each check.
    if is_old and not os.environ.get("CI"):
        yield Finding(
            "recording/old",
            f"{run.folder} was recorded {age(run.created, now)}: what has changed since is not in "
            "it; record it again with batchstat run",
        )


def _stored_profile(inputs: Inputs) -> Profile:
    """Return the profile in the results folder."""
    refuse_counting(inputs)
    folder = inputs.output
    try:
        profile = load_profile(folder)
    except InputError as error:
        reason = f"no corpus given, here or in a configuration, and {error.problem}"
        raise InputError(reason, error.remedy) from None
    if (change := next(changes(profile), None)) is not None:
        raise InputError(change, "name the corpus, or rerun batchstat profile")
    say(f"profile of {age(profile.created, datetime.now(UTC))} in {folder.as_posix()}")
    stored_values = asdict(profile.corpus.options)
    stored_values["tokenizer"] = profile.tokenizer.name if profile.tokenizer else None
    for key, setting in inputs.values.items():
        if key in stored_values and setting.value != stored_values[key]:
            raise InputError(
                f"the profile in {folder.as_posix()} has another {key.replace('_', '-')} than "
                f"{setting.origin} sets",
                "name the corpus, or rerun batchstat profile",
            )
    return profile
