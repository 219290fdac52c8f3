"""The checks that a command runs: chosen, counted, and compared with their limits."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import redirect_stderr, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat._version import __version__
from batchstat.cli.configuration import KEYS, Setting, digest_of_configuration
from batchstat.cli.current import current_training
from batchstat.cli.device import device_keywords, read_device
from batchstat.cli.inputs import Inputs, read_configuration, read_inputs
from batchstat.cli.options import Options
from batchstat.cli.pasted import lines_of_trial
from batchstat.cli.profile_findings import profile_findings
from batchstat.cli.profiles import count, refuse_counting
from batchstat.cli.records import Checks, ConfigFile, Counting
from batchstat.cli.streams import say
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.base import to_text
from batchstat.documents.check import check_document
from batchstat.errors import InputError, MissingError, OptionError
from batchstat.findings import Finding
from batchstat.gate.base import Base, base_in, load_base
from batchstat.gate.check import check, measure_report
from batchstat.gate.limits import DEFAULT_CHECK
from batchstat.gate.outcome import Check
from batchstat.planning.settings import DEFAULT_CURRENT
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.parquet import load_profile
from batchstat.profiling.profile import Profile
from batchstat.profiling.staleness import changes
from batchstat.render.text import age
from batchstat.shown_addresses import is_shortened
from batchstat.storage.addresses import as_path
from batchstat.storage.machine import BASE_ENDING, cache_folder
from batchstat.storage.shown import is_remote
from batchstat.tokenization import builtin
from batchstat.tokenization.loading.load import files_of
from batchstat.tokenization.loading.remembered import state_of_files
from batchstat.words import flags_named

if TYPE_CHECKING:
    from batchstat.storage.revisions import Revision

_NO_CURRENT_SETUP = (
    f"the limits are held against {DEFAULT_CURRENT}, as nothing names what you train with: add "
    "--current, or current to the configuration: a strategy, a trainer's name or its file"
)


def chosen_checks(options: Options) -> list[Inputs]:
    """Return the settings of each check to run. `--check` names checks of the configuration.
    Without it, a corpus on the command line is one check; without either, all checks of the
    configuration run.

    Every setting is read here, so that a wrong one is reported before any corpus is counted.

    Raises:
        OptionError: an unknown check, or invalid settings of one.
        InputError: the configuration or a calibration cannot be read.
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


def run_check(inputs: Inputs) -> Check:
    """Run a check. Where its input has no answer, the check holds the error, so that the other
    checks still run.

    Raises:
        OptionError: options that do not fit the corpus's formats.
    """
    try:
        base = _base_of(inputs)
        profile = _profile_of_check(inputs)
        training = current_training(inputs, profile)
        samples = training.profile  # without those that a trainer leaves out
        all_kept = len(samples) == len(profile)
        checked = check(
            samples,
            inputs.limits_in_force,
            current=training.row or DEFAULT_CURRENT,
            base=base,
            name=inputs.name,
            # Called where a limit fails: returns what the user writes to make a change.
            written=partial(lines_of_trial, inputs, samples, all_kept=all_kept),
            trainer=training.trainer,
            **device_keywords(inputs),
            **asdict(training.settings),
        )
        findings = [*_input_findings(inputs, profile), *training.warnings, *checked.warnings]
        if base is not None and base.check is None:
            nothing = f"{base.name} has nothing to compare with: {base.why}"
            findings.insert(0, Finding("check/no-base", nothing))
        if training.row is None:  # neither a strategy nor a trainer is named
            findings.insert(0, Finding("check/no-current", _NO_CURRENT_SETUP))
        return replace(checked, warnings=inputs.shown(findings))
    except InputError as error:
        return Check(name=inputs.name, strategy=inputs.current_text, report=None, error=str(error))


def _base_of(inputs: Inputs) -> Base | None:
    """Return what a check is compared with: the check in a file of an earlier one, or of the same
    name at a revision, counted there by the configuration of that time. None without a base.

    A revision whose check has no answer gives a base without one, as on the branch that adds the
    check: `Base.why` says why.

    Raises:
        InputError: there is no such file or revision, or the file cannot be read.
    """
    name = inputs.get("base")
    if name is None:
        return None
    # A folder may be called as a branch is.
    if is_remote(name) or (Path(name).exists() and not Path(name).is_dir()):
        return load_base(as_path(name), inputs.name)
    from batchstat.profiling.cache import CountCache
    from batchstat.profiling.executors.local import processes
    from batchstat.storage.revisions import find_revision, moved

    revision = find_revision(name)
    stored = _stored_file(revision, inputs)
    what = f"check {inputs.name} at {name}, commit {revision.commit[:8]}"
    # What is checked out is counted each time: its data may be in no commit, and have changed.
    if stored is not None and not revision.is_here:
        with suppress(InputError, OSError):  # one that is not there or was damaged is made again
            base = base_in(stored.read_bytes(), inputs.name, name)
            counted = datetime.fromtimestamp(stored.stat().st_mtime, UTC).isoformat()
            say(f"{what}: counted {age(counted, datetime.now(UTC))}")
            return base
    say(f"{what}: counting")
    # What git says against a checkout is an error: a check must not pass because of it.
    with revision.checked_out() as root:
        given = moved(root, revision.root, revision.folder, inputs.options.given)
        try:
            with processes(1, 1).start() as pool:
                places = (root, revision.root, revision.folder)
                job = pool.submit(_measure_at, places, given, inputs.name)
                document = to_text(moved(revision.root, root, revision.folder, job.result()))
        except BrokenExecutor:
            raise InputError(
                f"the process that counted {name} was killed", "see whether memory was full"
            ) from None
        except (InputError, OptionError) as error:
            why = str(error).replace(root.as_posix(), revision.root.as_posix())
            is_new = isinstance(error, MissingError | OptionError)
            return Base(name, None, why=why, is_new=is_new)
    if stored is not None:
        with suppress(OSError):  # a cache that cannot be written
            CountCache.at(stored.parent).write(stored.name, document.encode())
    return base_in(document, inputs.name, name)


def _measure_at(
    places: tuple[Path, Path, str], given: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """Return the check with this name as in check.json, without limits, as it is in a checkout with
    the configuration there. It runs in a process of its own, whose working folder it changes.

    Args:
        places: as `moved` takes them: the checkout, the repository, and the folder to work in.
        given: the options of the command line, for the checkout.
        name: the name of the check.

    Raises:
        BatchstatError: the check has no answer.
    """
    try:
        os.chdir(places[0] / places[2])
    except OSError:
        raise MissingError(f"there is no folder {places[2]}") from None
    options = Options(given)
    # Not shown: the progress and the warnings of another time.
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere), flags_named():
        configuration = read_configuration(options)
        # A corpus on the command line is the check that has the settings all checks share.
        names = [check.name for check in configuration.checks]
        is_shared = name == DEFAULT_CHECK and name not in names
        check = configuration.shared if is_shared else configuration.check(name)
        # Paths of the configuration may be absolute, or lead out of the repository.
        inputs = read_inputs(options, replace(check, values=_moved_values(places, check.values)))
        inputs = replace(inputs, values=_moved_values(places, inputs.values))
        training = current_training(inputs, _profile_of_check(inputs))
        row = training.row or StrategySpec.of(DEFAULT_CURRENT)
        read = (training.settings, inputs.limits_in_force, read_device(inputs))
        measured = measure_report(training.profile, row, *read)
        answer = Check(name=name, strategy=measured.strategy, report=measured.report)
        return check_document([answer], answer.status, datetime.now(UTC).isoformat())


def _moved_values(
    places: tuple[Path, Path, str], values: Mapping[str, Setting]
) -> dict[str, Setting]:
    from batchstat.storage.revisions import moved

    return {key: replace(each, value=moved(*places, each.value)) for key, each in values.items()}


def _stored_file(revision: "Revision", inputs: Inputs) -> Path | None:
    """Return the file in the cache for the numbers of a check at a revision; None where it cannot
    be told from those of another, or without a cache.
    """
    options, folder = inputs.options, cache_folder()
    config = options.read(ConfigFile)
    decisive = [
        (key, options.given[key]) for key in ("config", "no_config", *KEYS) if key in options.given
    ]
    # The configuration may be in no commit, and the tokenizer be one of another place: it says
    # which versions of libraries count, too.
    tokenizer = files_of(inputs.get("tokenizer", builtin.NAME))
    state = None if tokenizer is None else state_of_files(tokenizer)
    configured = "" if inputs.table is None else digest_of_configuration(config.config)
    own = (inputs.name, decisive, state, configured)
    written = repr((__version__, revision.commit, revision.folder, *own))
    is_unknown = tokenizer is not None and state is None
    if folder is None or options.read(Counting).no_cache or is_shortened(written) or is_unknown:
        return None
    return folder / f"{hashlib.blake2b(written.encode(), digest_size=20).hexdigest()}{BASE_ENDING}"


def _profile_of_check(inputs: Inputs) -> Profile:
    """Return the profile of a check's recording, if its current setup is one; else of its corpus;
    else, without a corpus, the profile in the results folder.
    """
    run = None if inputs.observed is None else inputs.observed.run
    if inputs.observed is not None and run is not None:
        run_age = age(run.created, datetime.now(UTC))
        say(f"recording of {run.command or run.program}, {run_age}, in {run.folder}")
        return inputs.observed.profile
    return count(inputs)[0] if inputs.corpus else _stored_profile(inputs)


def _input_findings(inputs: Inputs, profile: Profile) -> Iterator[Finding]:
    """Yield findings about the recording of a check, if its current setup is one; else about the
    profile of its whole corpus.
    """
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
    """Return the profile in the results folder.

    Raises:
        InputError: there is none, its corpus has changed since, or the settings in force would
            count it otherwise.
    """
    refuse_counting(inputs)
    folder = inputs.output
    try:
        profile = load_profile(folder)
    except InputError as error:
        reason = f"no corpus given, here or in a configuration, and {error.problem}"
        raise InputError(reason, error.remedy) from None
    # What has changed in the corpus since it was counted, in words. The first change is enough.
    if (change := next(changes(profile), None)) is not None:
        raise InputError(change, "name the corpus, or rerun batchstat profile")
    say(f"profile of {age(profile.created, datetime.now(UTC))} in {folder.as_posix()}")
    # The values that the profile was counted with, by the keys of settings.
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
