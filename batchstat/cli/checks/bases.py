"""What the checks of a command are compared with: a file, or themselves at a revision of git."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batchstat._version import __version__
from batchstat.cli.checks.run import profile_of_check
from batchstat.cli.configuration import KEYS, Setting, configuration_file
from batchstat.cli.device import read_device
from batchstat.cli.inputs import Inputs, read_configuration, read_inputs
from batchstat.cli.options import Options
from batchstat.cli.records import ConfigFile, Counting
from batchstat.cli.streams import say
from batchstat.documents.base import to_text
from batchstat.documents.check import check_document
from batchstat.errors import InputError, MissingError, OptionError
from batchstat.gate.base import Base, base_in, load_base
from batchstat.gate.check import measure_report
from batchstat.gate.outcome import Check
from batchstat.hidden_secrets import is_shortened
from batchstat.planning.settings import DEFAULT_CURRENT
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors.local import process_pool
from batchstat.render.text import age
from batchstat.storage.addresses import as_path
from batchstat.storage.machine import BASE_ENDING, cache_folder
from batchstat.storage.revisions import Revision, find_revision, named
from batchstat.storage.shown import is_remote
from batchstat.tokenization import builtin
from batchstat.tokenization.loading.load import files_of
from batchstat.tokenization.loading.remembered import state_of_files
from batchstat.words import flags_named


class Bases:
    """What each check of a command is compared with; a revision is counted once for all of them."""

    def __init__(self, checks: Sequence[Inputs]) -> None:
        self._checks = checks
        # By revision: each check there, by its name; or why there is none, so as to try that once.
        self._at: dict[str, Mapping[str, Base] | InputError] = {}

    def of(self, inputs: Inputs) -> Base | None:
        """Return what a check is compared with: the check in a file of an earlier one, or itself at
        a revision, by the configuration of that time; without an answer there, as on the branch
        that adds the check, `Base.why` says why. None without a base. Raises InputError: no such
        file or revision, or one that cannot be read or checked out: a check must not pass by that.
        """
        name = inputs.get("base")
        if name is None:
            return None
        # A folder may be called as a branch is.
        if is_remote(name) or (Path(name).exists() and not Path(name).is_dir()):
            return load_base(as_path(name), inputs.name)
        if name not in self._at:
            checks = [each for each in self._checks if each.get("base") == name]
            try:
                self._at[name] = _bases_at(find_revision(name), checks)
            except InputError as error:
                self._at[name] = error
        found = self._at[name]
        if isinstance(found, InputError):
            raise found
        return found[inputs.name]


def _bases_at(revision: Revision, checks: Sequence[Inputs]) -> Mapping[str, Base]:
    """Return each check at a revision, by name, from the cache or counted. Raises InputError."""
    files = {each.name: _stored_file(revision, each) for each in checks}
    bases: dict[str, Base] = {}
    for name, file in files.items():
        # What is checked out is counted each time: its data may be in no commit, and have changed.
        if file is None or revision.is_here:
            continue
        with suppress(InputError, OSError):  # one that is not there or was damaged is made again
            bases[name] = base_in(file.read_bytes(), name, revision.name)
            counted = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
            say(f"check {name} at {revision}: counted {age(counted, datetime.now(UTC))}")
    if left := [name for name in files if name not in bases]:
        say(f"check{'s' * (len(left) > 1)} {', '.join(left)} at {revision}: counting")
        with revision.checked_out() as checked_out:
            try:
                with process_pool(1, 1) as pool:
                    given = checked_out.there(checks[0].options.given)
                    measured = pool.submit(_measure_checks, checked_out, given, left).result()
            except BrokenExecutor:
                why = f"the process that counted {revision.name} was killed"
                raise InputError(why, "see whether memory was full") from None
        for name, of_check in zip(left, measured, strict=True):
            document = to_text(checked_out.here(of_check))
            bases[name] = base_in(document, name, revision.name)
            # Why there is no answer may be over at another attempt.
            if bases[name].check is not None and (file := files[name]) is not None:
                with suppress(OSError):  # a cache that cannot be written
                    CountCache.at(file.parent).write(file.name, document.encode())
    return bases


def _measure_checks(
    revision: Revision, given: Mapping[str, Any], names: Sequence[str]
) -> list[dict[str, Any]]:
    # Not shown: the progress and the warnings of another time.
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere), flags_named():
        return [_measured(revision, Options(given), name) for name in names]


def _measured(revision: Revision, options: Options, name: str) -> dict[str, Any]:
    """Return the check.json of a check in a checkout: its report, or why it has no answer."""
    try:
        try:
            os.chdir(revision.checkout / revision.folder)
        except OSError:
            raise MissingError(f"there is no folder {revision.folder}") from None
        configuration = read_configuration(options)
        # A corpus on the command line is the check that has the settings all checks share.
        checks = {each.name: each for each in (configuration.shared, *configuration.checks)}
        check = checks[name] if name in checks else configuration.check(name)  # which raises
        # Paths of the configuration may be absolute, or lead out of the repository.
        inputs = read_inputs(options, replace(check, values=_moved(revision, check.values)))
        inputs = replace(inputs, values=_moved(revision, inputs.values))
        training = inputs.training(profile_of_check(inputs))
        row = training.row or StrategySpec.of(DEFAULT_CURRENT)
        read = (training.settings, inputs.limits_in_force, read_device(inputs))
        measured = measure_report(training.profile, row, *read)
        answer = Check(name=name, strategy=measured.strategy, report=measured.report)
    except (InputError, OptionError) as error:
        error.args = tuple(map(revision.text_here, error.args))
        answer = Check(name=name, strategy="", report=None, error=error)
    return check_document([answer], answer.status, datetime.now(UTC).isoformat())


def _moved(revision: Revision, values: Mapping[str, Setting]) -> dict[str, Setting]:
    return {key: replace(each, value=revision.there(each.value)) for key, each in values.items()}


def _stored_file(revision: Revision, inputs: Inputs) -> Path | None:
    """Return the cached file of a check at a revision; None if it may be that of another."""
    options, folder = inputs.options, cache_folder()
    if folder is None or options.read(Counting).no_cache:
        return None
    decisive = [
        (key, options.given[key]) for key in ("config", "no_config", *KEYS) if key in options.given
    ]
    # The tokenizer may be one of another place: its state has the versions of libraries, too.
    tokenizer = files_of(inputs.get("tokenizer", builtin.NAME))
    state = None if tokenizer is None else state_of_files(tokenizer)
    # Files of the repository are those of the commit; where one is in no commit, as it was then.
    config = options.read(ConfigFile)
    files = [None if config.no_config else configuration_file(config.config)]
    files.append(inputs.get("calibration"))
    if inputs.setup is not None and inputs.observed is None:
        files.append(inputs.setup.path)
    paths = [Path(file) for file in files if file is not None]
    outside = [path for path in paths if not named(path).is_relative_to(revision.root)]
    try:
        digests = [hashlib.blake2b(path.read_bytes()).hexdigest() for path in outside]
    except OSError:
        return None
    own = (inputs.name, decisive, state, digests)
    written = repr((__version__, revision.commit, revision.folder, *own))
    if is_shortened(written) or (tokenizer is not None and state is None):
        return None
    return folder / f"{hashlib.blake2b(written.encode(), digest_size=20).hexdigest()}{BASE_ENDING}"
