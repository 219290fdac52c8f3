"""Read a trainer's configuration: JSON or YAML, of a framework that is known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from shlex import quote
from typing import Any

from batchstat.errors import MissingError, OptionError
from batchstat.findings import Finding
from batchstat.parameters import one_of
from batchstat.storage.addresses import local_path
from batchstat.storage.shown import is_remote
from batchstat.trainers.base.key_files import read_keys
from batchstat.trainers.base.keys import check_spelling
from batchstat.trainers.base.not_read import NOT_READ, NotRead, trainer_not_read
from batchstat.trainers.base.setup import Framework, TrainingSetup
from batchstat.trainers.base.waits import wait_of
from batchstat.trainers.registry import CONFIGURATIONS

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""Keys that, where they are true, decide the dtype that is computed in; with torch's name of it."""
_KNOWN_SHARE = 0.5  # of a file's keys: a framework that knows as many may be the file's


def read_setup(
    path: str | Path, framework: str | None = None, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Read a trainer's configuration from a file, and return what it means. Raises OptionError: not
    a configuration of a known framework, a misspelt key, an invalid value, or batches that are not
    modelled; InputError: a file that cannot be read.
    """
    path = local_path(path)
    where = path.as_posix()
    values = {str(key): value for key, value in read_keys(path).items()}
    _refuse_launcher(path, values)
    if framework is None:
        framework = _recognise_framework(where, values)
    else:
        if isinstance(framework, str):  # `one_of` refuses anything else that a caller may pass
            _refuse_not_read(where, NOT_READ.get(framework))
        one_of("framework", framework, CONFIGURATIONS)
        _check_framework(where, framework, values)  # the caller may have named the wrong one
    return setup_of(values, framework, path, ignore_keys)


def setup_of(
    values: Mapping[str, Any], name: str, path: Path, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Return what the keys of a trainer's configuration mean, with its warnings. Raises
    OptionError: a misspelt key or an invalid value, or batches that are not modelled.
    """
    framework, where = CONFIGURATIONS[name], path.as_posix()
    # Keys that decide nothing: of the framework, and those that the user says to ignore.
    without_effect = {*framework.unused, *ignore_keys}
    known = without_effect | framework.keys.keys()  # beside them, the keys that decide
    # An unknown key that is null sets nothing, whatever it means.
    unknown = tuple(key for key, value in values.items() if value is not None and key not in known)
    check_spelling(where, unknown, framework.keys)
    rules = framework.read(framework.config.read(where, values))
    warnings = [*rules.warnings]
    if other := framework.other_version:
        warnings.append(
            Finding(
                "config/other-version",
                f"checked against {framework.package} {framework.version}; {other} is installed "
                "and may differ",
            )
        )
    checkpointing = values.get("gradient_checkpointing")
    batching = rules.batching
    if (wait := wait_of(values, path.parent)) is not None:
        batching = replace(batching, settings={**batching.settings, "wait": wait})
    return TrainingSetup(
        config=rules.config,
        corpus=rules.corpus,
        batching=batching,
        schedule=rules.schedule,
        warnings=tuple(warnings),
        framework=name,
        title=framework.title,
        version=framework.version,
        path=path,
        unused=tuple(key for key in values if key in without_effect),
        assumed=unknown,
        dtype=next((dtype for key, dtype in _DTYPES.items() if values.get(key) is True), None),
        gradient_checkpointing=checkpointing if isinstance(checkpointing, bool) else None,
        own=values,
        own_keys=framework.own_keys,
    )


def check_files(setup: TrainingSetup, files: Sequence[str]) -> None:
    """Raise InputError for a file of the corpus that the configuration names and that is missing;
    addresses of remote files and patterns such as `data/*.jsonl` are not looked up.
    """
    for file in files:
        if not (is_remote(file) or has_magic(file) or Path(file).exists()):
            raise MissingError(
                f"no such file: {file}, which {setup.path.as_posix()} names in datasets, "
                "from the current folder",
                "run in the folder of the data, or pass its files as CORPUS",
            )


def _recognise_framework(where: str, values: Mapping[str, Any]) -> str:
    """Return the first framework of those that know the largest share of the keys."""
    _refuse_not_read(where, trainer_not_read(values))
    known_shares = {
        name: 1 - len(_unknown_keys(each, values)) / max(len(values), 1)
        for name, each in CONFIGURATIONS.items()
    }
    name = max(known_shares, key=lambda candidate: known_shares[candidate])
    # An empty file has no unknown key, so its share is 1 for every framework.
    if known_shares[name] < _KNOWN_SHARE or not values:
        titles = ", ".join(each.title for each in CONFIGURATIONS.values())
        keys = ", ".join(list(values)[:4]) or "none"
        raise OptionError(
            f"{where} is not a configuration of a known trainer ({titles}): its keys begin with "
            f"{keys}",
            "name the trainer with --framework",
        )
    return name


def _refuse_launcher(path: Path, values: Mapping[str, Any]) -> None:
    """Raise OptionError if the keys are of what starts a trainer, with what they say of ranks."""
    titles = {"distributed_type": "accelerate's", "zero_optimization": "DeepSpeed's"}
    title = next((title for key, title in titles.items() if key in values), None)
    if title is None:
        return
    ranks = values.get("num_processes")
    flags = [f"--world-size {ranks}"] if isinstance(ranks, int) else []
    if (wait := wait_of(values, path.parent)) is not None:
        flags.append(f"--wait {wait}")
    says = f", with {' '.join(flags)}, as it says" if flags else ""
    raise OptionError(
        f"{path.as_posix()} is {title} configuration, not a trainer's", f"name the trainer's{says}"
    )


def _refuse_not_read(where: str, trainer: NotRead | None) -> None:
    """Raise OptionError if the configuration is of a trainer that is recognised, but not read."""
    if trainer is None:
        return
    titles = [each.title for each in CONFIGURATIONS.values()]
    remedy = "describe your batches, as in `batchstat compare CORPUS --current static:batch_size=8`"
    if trainer.command:
        remedy = f"record its batches: `batchstat run --dry-run {trainer.command} {quote(where)}`"
    raise OptionError(
        f"{where} is {trainer.title}, which batchstat does not read; it reads "
        f"{', '.join(titles[:-1])} and {titles[-1]}",
        remedy,
    )


def _unknown_keys(framework: Framework, values: Mapping[str, Any]) -> list[str]:
    return [key for key in values if not framework.knows(key)]


def _check_framework(where: str, name: str, values: Mapping[str, Any]) -> None:
    """Raise OptionError for the keys of another framework, or of a trainer that is not read."""
    unknown_keys = _unknown_keys(CONFIGURATIONS[name], values)
    if not unknown_keys:
        return
    # If none knows all, the named one may be right: `setup_of` handles unknown keys later.
    _refuse_not_read(where, trainer_not_read(values))
    for other_name, other in CONFIGURATIONS.items():
        if not _unknown_keys(other, values):
            raise OptionError(
                f"{where} is not a configuration of {name}, which has no {unknown_keys[0]}, but of "
                f"{other_name} ({other.title})",
                f"pass --framework {other_name}, or name another file",
            )
