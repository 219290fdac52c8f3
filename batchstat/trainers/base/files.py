"""Read a trainer's configuration: JSON or YAML, of a framework that is known."""

import json
import stat
from collections.abc import Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.parameters import one_of
from batchstat.storage.addresses import local_path
from batchstat.storage.shown import is_remote
from batchstat.trainers.base.keys import check_spelling
from batchstat.trainers.base.named import PICKLE, SUFFIXES
from batchstat.trainers.base.not_read import NOT_READ, NotRead, trainer_not_read
from batchstat.trainers.base.references import Resolved, check_resolved, resolve_references
from batchstat.trainers.base.setup import Framework, TrainingSetup
from batchstat.trainers.registry import CONFIGURATIONS
from batchstat.words import short

_MOST_BYTES = 4 << 20
"""Bytes of a configuration: so many of YAML take some ten seconds to read."""
_MOST_VALUES = 100_000
"""Values of a configuration, those that YAML repeats counted as often as they stand there."""
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""Keys that, where they are true, decide the dtype that is computed in; with torch's name of it."""
_KNOWN_SHARE = 0.5
"""A file is taken for a configuration of a framework that knows at least this share of its keys."""


def read_setup(
    path: str | Path, framework: str | None = None, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Read a trainer's configuration from a file, and return what it means.

    Args:
        path: a .json or .yaml file.
        framework: name of the framework that the file is for; by default the framework that knows
            the largest share of its keys.
        ignore_keys: further keys that decide nothing about data or batches.

    Raises:
        OptionError: the file is not a configuration of a known framework, has a misspelt key or an
            invalid value, or asks for batches that are not modelled.
        InputError: the file cannot be read.
    """
    path = local_path(path)
    where = path.as_posix()
    content = resolve_references(_read_keys(path))
    if framework is None:
        framework = _recognise_framework(where, content)
    else:
        if isinstance(framework, str):  # `one_of` refuses anything else that a caller may pass
            _refuse_not_read(where, NOT_READ.get(framework))
        one_of("framework", framework, CONFIGURATIONS)
        _check_framework(where, framework, content)  # the caller may have named the wrong one
    values = _trainer_keys(CONFIGURATIONS[framework], content)
    check_resolved(where, values, CONFIGURATIONS[framework].keys)
    return setup_of(values, framework, path, ignore_keys)


def setup_of(
    values: Mapping[str, Any], name: str, path: Path, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Return what the keys of a trainer's configuration mean, with its warnings.

    Args:
        values: the keys with their values.
        name: name of the framework that the keys are for.
        path: the configuration, for messages.
        ignore_keys: further keys that decide nothing about data or batches.

    Raises:
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
    if unknown and framework.drops_unknown:
        dropped = f"{framework.package} drops keys that it does not know: {', '.join(unknown)}"
        warnings.append(Finding("config/dropped-keys", dropped))
    if other := framework.other_version:
        warnings.append(
            Finding(
                "config/other-version",
                f"checked against {framework.package} {framework.version}; {other} is installed "
                "and may differ",
            )
        )
    checkpointing = values.get(framework.checkpointing)
    return TrainingSetup(
        config=rules.config,
        corpus=rules.corpus,
        batching=rules.batching,
        schedule=rules.schedule,
        warnings=tuple(warnings),
        framework=name,
        title=framework.title,
        version=framework.version,
        path=path,
        unused=tuple(key for key in values if key in without_effect),
        # A trainer that drops unknown keys leaves nothing to assume about them.
        assumed=() if framework.drops_unknown else unknown,
        dtype=next((dtype for key, dtype in _DTYPES.items() if values.get(key) is True), None),
        gradient_checkpointing=checkpointing if isinstance(checkpointing, bool) else None,
        own=values,
        own_keys=framework.own_keys,
    )


def check_files(setup: TrainingSetup, files: Sequence[str]) -> None:
    """Raise InputError for a file of the corpus that the configuration names and that is missing.

    Addresses of remote files and patterns such as `data/*.jsonl` are not looked up.
    """
    for file in files:
        if not (is_remote(file) or has_magic(file) or Path(file).exists()):
            raise InputError(
                f"no such file: {file}, which {setup.path.as_posix()} names in datasets, "
                "from the current folder: run in the folder of the data, or pass its files as "
                "CORPUS"
            )


def _recognise_framework(where: str, content: Resolved) -> str:
    """Return the name of the framework that knows the largest share of the keys; if several know
    the same share, the first of `CONFIGURATIONS`.
    """
    _refuse_not_read(where, trainer_not_read(content.values))
    known_shares = {
        name: 1 - len(_unknown_keys(each, content)) / max(len(_trainer_keys(each, content)), 1)
        for name, each in CONFIGURATIONS.items()
    }
    name = max(known_shares, key=lambda candidate: known_shares[candidate])
    # An empty file has no unknown key, so its share is 1 for every framework.
    if known_shares[name] < _KNOWN_SHARE or not content.values:
        titles = ", ".join(each.title for each in CONFIGURATIONS.values())
        keys = ", ".join(list(content.values)[:4]) or "none"
        raise OptionError(
            f"{where} is not a configuration of a known trainer ({titles}): its keys begin with "
            f"{keys}; name the trainer with --framework"
        )
    return name


def _refuse_not_read(where: str, trainer: NotRead | None) -> None:
    """Raise OptionError if the configuration is of a trainer that is recognised, but not read."""
    if trainer is None:
        return
    titles = [each.title for each in CONFIGURATIONS.values()]
    raise OptionError(
        f"{where} is {trainer.title}, which batchstat does not read; it reads "
        f"{', '.join(titles[:-1])} and {titles[-1]}: describe your batches, as in "
        "`batchstat compare CORPUS --current static:batch_size=8`"
    )


def _trainer_keys(framework: Framework, content: Resolved) -> dict[str, Any]:
    """Return a configuration without the user's own variables: keys that the framework does not
    know, and that only exist for other keys to refer to them, as in `max_length: ${my_length}`.
    """
    return {
        key: value
        for key, value in content.values.items()
        if key not in content.referred or framework.knows(key)
    }


def _unknown_keys(framework: Framework, content: Resolved) -> list[str]:
    return [key for key in _trainer_keys(framework, content) if not framework.knows(key)]


def _check_framework(where: str, name: str, content: Resolved) -> None:
    """Raise OptionError if the framework that was named does not know all keys, and another one
    does; or if the keys are those of a trainer that is not read.
    """
    unknown_keys = _unknown_keys(CONFIGURATIONS[name], content)
    if not unknown_keys:
        return
    # If no other framework knows all keys, the named one may be right: unknown keys are handled
    # later, by `setup_of`.
    _refuse_not_read(where, trainer_not_read(content.values))
    for other_name, other in CONFIGURATIONS.items():
        if not _unknown_keys(other, content):
            raise OptionError(
                f"{where} is not a configuration of {name}, which has no {unknown_keys[0]}, but of "
                f"{other_name} ({other.title}): pass --framework {other_name}, or name another file"
            )


def _read_keys(path: Path) -> dict[str, Any]:
    """Return the keys of a JSON or YAML file with their values, references not yet resolved.

    Raises:
        OptionError: the file is not a configuration: a pickle, a folder, no JSON or YAML.
        InputError: the file cannot be opened or decoded.
    """
    where = path.as_posix()
    if path.suffix == PICKLE:
        raise OptionError(
            f"{where} is a pickle, which could run any code: save it as JSON, with "
            "open('training_args.json', 'w').write(training_args.to_json_string())"
        )
    try:
        if path.is_dir():  # raises OSError for a name that is too long
            raise OptionError(f"{where} is a folder: name the configuration in it")
        if path.suffix not in SUFFIXES:
            raise OptionError(f"{where}: a trainer's configuration ends in {', '.join(SUFFIXES)}")
        _check_file(path)
        text = path.read_text(encoding="utf-8-sig")  # Windows editors begin it with a BOM
    except FileNotFoundError:
        raise InputError(f"no such file: {where}") from None
    except (OSError, UnicodeDecodeError) as error:
        # An OSError has its reason in strerror; the other error is about the encoding.
        reason = getattr(error, "strerror", None) or "it is not UTF-8: save it as that"
        raise InputError(f"{where} cannot be read: {reason}") from None
    try:
        content = json.loads(text) if path.suffix == ".json" else _parse_yaml(text)
        _count_values(content, {})
    except (ValueError, RecursionError) as error:  # RecursionError: lists in lists, ever deeper
        reason = " ".join(str(error).split())[:200]
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise OptionError(f"{where} is not valid {kind}: {reason}: correct it") from None
    if not isinstance(content, dict):
        shown = "empty" if content is None else short(content)
        raise OptionError(
            f"{where} contains no settings, it is {shown}: pass the trainer's configuration file"
        )
    return content


def _check_file(path: Path) -> None:
    """Raise OptionError for a pipe, a device or a file that is too large, before it is read:
    reading a pipe would wait for its writer, and a device has no end.
    """
    where, facts = path.as_posix(), path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OptionError(f"{where} is not a regular file: name the trainer's configuration")
    if facts.st_size > _MOST_BYTES:
        raise OptionError(
            f"{where} has {facts.st_size:,} bytes, more than a configuration has "
            f"({_MOST_BYTES:,}): name the trainer's configuration"
        )


def _count_values(value: Any, counted: dict[int, int]) -> int:
    """Count the values in a table or list, so that a hostile file is refused: an alias of YAML can
    repeat a list in a list in a list, where a few lines stand for more values than fit in memory,
    and can put a list into itself. `[1, [2, 3]]` has 5 values: 3 numbers and 2 lists.

    Args:
        value: any value of a configuration.
        counted: by the id of each table or list that was met before, how many values it has; 0
            while these are being counted.

    Raises:
        ValueError: there are more than `_MOST_VALUES`, or a table or list contains itself.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        counted[id(value)] = 0
        parts = value.values() if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_count_values(part, counted) for part in parts)
    count = counted[id(value)]
    if count == 0:  # this call is for one of its own parts, which have not all been counted
        raise ValueError("a table or list is in itself")
    if count > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES:,} values")
    return count


def _parse_yaml(text: str) -> Any:
    """Return what a YAML text contains. Raises ValueError with the line and column of a mistake."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        # PyYAML splits such a sentence: "expected a single document" is the context, and "but found
        # another document" the problem.
        context = f"{error.context} " if str(error.problem).startswith("but ") else ""
        raise ValueError(f"{context}{error.problem}{place}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
