"""Read a trainer's configuration: JSON or YAML, of a framework that is known."""

import json
import stat
from collections.abc import Mapping, Sequence
from glob import has_magic
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError, short
from batchstat.parameters import one_of
from batchstat.storage.addresses import local_path
from batchstat.storage.shown import is_remote
from batchstat.trainers.base.keys import check_spelling
from batchstat.trainers.base.named import PICKLE, SUFFIXES
from batchstat.trainers.base.not_read import NOT_READ, NotRead, recognised
from batchstat.trainers.base.references import Resolved, check_resolved, resolved
from batchstat.trainers.base.setup import Framework, TrainingSetup
from batchstat.trainers.registry import CONFIGURATIONS

_MOST_BYTES = 4 << 20
"""Bytes of a configuration: so many of YAML take some ten seconds to read."""
_MOST_VALUES = 100_000
"""Values of a configuration, those that YAML repeats counted as often as they stand there."""
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""Keys that decide what is computed in where they are true, with its name in torch."""
_KNOWN_SHARE = 0.5
"""Share of a file's keys that a framework must know for it to be its configuration."""


def read_setup(
    path: str | Path, framework: str | None = None, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Return what a trainer's configuration means.

    Args:
        path: a .json or .yaml file.
        framework: the one that it is for; by default the one that knows most of its keys.
        ignore_keys: keys that decide nothing about data or batches, beside those that are known.

    Raises:
        OptionError: the file is not a configuration of a known framework, has a misspelt key or an
            invalid value, or asks for batches that are not modelled.
        InputError: the file cannot be read.
    """
    path = local_path(path)
    where = path.as_posix()
    content = resolved(_read(path))
    name = _recognised(where, content) if framework is None else framework
    if isinstance(name, str):
        _refuse_not_read(where, NOT_READ.get(name))
    one_of("framework", name, CONFIGURATIONS)
    if framework is not None:
        _check_framework(where, name, content)
    given = _own(CONFIGURATIONS[name], content)
    check_resolved(where, given, CONFIGURATIONS[name].keys)
    return setup_of(given, name, path, ignore_keys)


def setup_of(
    given: Mapping[str, Any], name: str, path: Path, ignore_keys: Sequence[str] = ()
) -> TrainingSetup:
    """Return what the keys of a trainer's configuration mean.

    Args:
        given: the keys with their values.
        name: of the framework that they are for.
        path: the configuration, for messages.
        ignore_keys: keys that decide nothing, beside those that are known.

    Raises:
        OptionError: a misspelt key or an invalid value, or batches that are not modelled.
    """
    framework, where = CONFIGURATIONS[name], path.as_posix()
    without_effect = {*framework.unused, *ignore_keys}
    known = without_effect | framework.keys.keys()
    unknown = tuple(key for key, value in given.items() if value is not None and key not in known)
    check_spelling(where, unknown, framework.keys)
    rules = framework.read(framework.config.read(where, given))
    warnings = [*rules.warnings]
    if unknown and framework.drops_unknown:
        warnings.append(
            f"{framework.package} drops keys that it does not know: {', '.join(unknown)}"
        )
    if other := framework.other_version:
        warnings.append(
            f"checked against {framework.package} {framework.version}; {other} is installed and "
            "may differ"
        )
    checkpointing = given.get(framework.checkpointing)
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
        unused=tuple(key for key in given if key in without_effect),
        assumed=() if framework.drops_unknown else unknown,
        dtype=next((dtype for key, dtype in _DTYPES.items() if given.get(key) is True), None),
        gradient_checkpointing=checkpointing if isinstance(checkpointing, bool) else None,
        own=given,
        own_keys=framework.own_keys,
    )


def check_files(setup: TrainingSetup, files: Sequence[str]) -> None:
    """Raise InputError if a file of the corpus does not exist that the configuration names."""
    for file in files:
        if not (is_remote(file) or has_magic(file) or Path(file).exists()):
            raise InputError(
                f"no such file: {file}, which {setup.path.as_posix()} names in datasets, "
                "from the current folder: run in the folder of the data, or pass its files as "
                "CORPUS"
            )


def _recognised(where: str, content: Resolved) -> str:
    """Return the framework that knows the largest share of the keys; of equals, the first."""
    _refuse_not_read(where, recognised(content.values))
    shares = {
        name: 1 - len(_unknown(framework, content)) / max(len(_own(framework, content)), 1)
        for name, framework in CONFIGURATIONS.items()
    }
    name = max(shares, key=lambda each: shares[each])
    if shares[name] < _KNOWN_SHARE or not content.values:
        titles = ", ".join(each.title for each in CONFIGURATIONS.values())
        keys = ", ".join(list(content.values)[:4]) or "none"
        raise OptionError(
            f"{where} is not a configuration of a known trainer ({titles}): its keys begin with "
            f"{keys}; name the trainer with --framework"
        )
    return name


def _refuse_not_read(where: str, trainer: NotRead | None) -> None:
    """Raise OptionError for a trainer whose configuration is known, but not read."""
    if trainer is None:
        return
    titles = [each.title for each in CONFIGURATIONS.values()]
    raise OptionError(
        f"{where} is {trainer.title}, which batchstat does not read; it reads "
        f"{', '.join(titles[:-1])} and {titles[-1]}: describe your batches, as in "
        "`batchstat compare CORPUS --current static:batch_size=8`"
    )


def _own(framework: Framework, content: Resolved) -> dict[str, Any]:
    """Return the keys of a configuration, without the user's own for others to refer to."""
    return {
        key: value
        for key, value in content.values.items()
        if key not in content.referred or framework.knows(key)
    }


def _unknown(framework: Framework, content: Resolved) -> list[str]:
    return [key for key in _own(framework, content) if not framework.knows(key)]


def _check_framework(where: str, name: str, content: Resolved) -> None:
    """Raise OptionError if another framework than the one that was named knows all keys."""
    unknown_keys = _unknown(CONFIGURATIONS[name], content)
    if not unknown_keys:
        return
    _refuse_not_read(where, recognised(content.values))
    for other, each in CONFIGURATIONS.items():
        if not _unknown(each, content):
            raise OptionError(
                f"{where} is not a configuration of {name}, which has no {unknown_keys[0]}, but of "
                f"{other} ({each.title}): pass --framework {other}, or name another file"
            )


def _read(path: Path) -> dict[str, Any]:
    where = path.as_posix()
    if path.suffix == PICKLE:
        raise OptionError(
            f"{where} is a pickle, which could run any code: save it as JSON, with "
            "open('training_args.json', 'w').write(training_args.to_json_string())"
        )
    try:
        if path.is_dir():  # which raises OSError for a name that is too long
            raise OptionError(f"{where} is a folder: name the configuration in it")
        if path.suffix not in SUFFIXES:
            raise OptionError(f"{where}: a trainer's configuration ends in {', '.join(SUFFIXES)}")
        _check_file(path)
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"no such file: {where}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8: save it as that"
        raise InputError(f"{where} cannot be read: {reason}") from None
    try:
        content = json.loads(text) if path.suffix == ".json" else _yaml(text)
        _count_values(content, {})
    except (ValueError, RecursionError) as error:
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
    """Raise OptionError for a pipe, a device or a file that is too large, before any of it is read:
    a pipe would be waited for, and a device has no end.
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
    """Return how many values there are in one. YAML can repeat a list in a list in a list, so that
    a few lines are more than fits in memory, and can put one into itself.

    Args:
        value: of a configuration.
        counted: those of the tables and lists that were counted, by their ids; 0 for one whose
            values are being counted.

    Raises:
        ValueError: too many.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in counted:
        counted[id(value)] = 0
        parts = value.values() if isinstance(value, dict) else value
        counted[id(value)] = 1 + sum(_count_values(each, counted) for each in parts)
    count = counted[id(value)]
    if count == 0:
        raise ValueError("a table or list is in itself")
    if count > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES:,} values")
    return count


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        # PyYAML begins such a sentence in the context: expected a single document.
        context = f"{error.context} " if str(error.problem).startswith("but ") else ""
        raise ValueError(f"{context}{error.problem}{place}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
