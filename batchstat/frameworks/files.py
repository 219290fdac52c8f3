"""Read a trainer's configuration: JSON or YAML, of a framework that is known."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError, short, unknown
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.keys import read_values
from batchstat.frameworks.references import check_resolved
from batchstat.frameworks.setup import Framework, TrainingSetup
from batchstat.storage.addresses import is_remote

SUFFIXES = (".json", ".yaml", ".yml")
PICKLE = ".bin"
_KNOWN_SHARE = 0.5
"""Share of a file's keys that a framework must know for it to be its configuration."""


def read_setup(
    path: str | Path, framework: str | None = None, changes: Mapping[str, Any] | None = None
) -> TrainingSetup:
    """Return what a trainer's configuration means.

    Args:
        path: a .json or .yaml file.
        framework: the one that it is for; by default the one that knows most of its keys.
        changes: values that replace those of the file.

    Raises:
        OptionError: the file is not a configuration of a known framework, has an unknown key or an
            invalid value, or asks for batches that are not modelled.
        InputError: the file cannot be read.
    """
    path = Path(path)
    content = _read(path)
    name = _recognised(path, content) if framework is None else framework
    if name not in CONFIGURATIONS:
        raise unknown("framework", name, CONFIGURATIONS)
    found = CONFIGURATIONS[name]
    given = {**found.named(content), **(changes or {})}
    where = path.as_posix()
    if framework is not None:
        _check_framework(where, name, content)
    if found.has_dashes:
        _check_spellings(where, content)
    if found.is_nested:
        check_resolved(where, given, found.keys)
    values = read_values(where, given, found.keys, found.decides_nothing, found.unused)
    setup = found.read(
        values,
        where=where,
        framework=name,
        title=found.title,
        version=found.version,
        path=path,
        unused=tuple(key for key in given if found.decides_nothing(key)),
        dtype=found.dtype(given),
        gradient_checkpointing=found.gradient_checkpointing(given),
        given=frozenset(given),
    )
    setup = replace(setup, given=frozenset(given))
    if other := found.other_version:
        message = (
            f"{found.package} {other} is installed, but these are the rules of {found.version}: "
            "what has changed between them is not known here"
        )
        setup = replace(setup, warnings=(*setup.warnings, message))
    return setup


def check_files(setup: TrainingSetup, files: Sequence[str]) -> None:
    """Raise InputError if a file of the corpus does not exist that the configuration names."""
    for file in files:
        if not (is_remote(file) or has_magic(file) or Path(file).exists()):
            raise InputError(
                f"no such file: {file}, which {setup.path.as_posix()} names in {setup.corpus_key}, "
                "from the current folder: run in the folder of the data, or pass its files as "
                "CORPUS"
            )


def _recognised(path: Path, content: Mapping[str, Any]) -> str:
    """Return the framework that knows the largest share of the keys; of equals, the first."""
    name = max(CONFIGURATIONS, key=lambda each: _known_share(CONFIGURATIONS[each], content))
    if _known_share(CONFIGURATIONS[name], content) < _KNOWN_SHARE or not content:
        titles = ", ".join(each.title for each in CONFIGURATIONS.values())
        keys = ", ".join(list(map(str, content))[:4]) or "none"
        raise OptionError(
            f"{path.as_posix()} is not a configuration of a known trainer ({titles}): its keys "
            f"begin with {keys}; name the trainer with --framework"
        )
    return name


def _known_share(framework: Framework, content: Mapping[str, Any]) -> float:
    given = framework.named(content)
    return 1 - len(_unknown(framework, content)) / max(len(given), 1)


def _unknown(framework: Framework, content: Mapping[str, Any]) -> list[str]:
    given = framework.named(content)
    return [
        key for key in given if key not in framework.keys and not framework.decides_nothing(key)
    ]


def _check_framework(where: str, name: str, content: Mapping[str, Any]) -> None:
    """Raise OptionError if another framework than the one that was named knows all keys."""
    unknown_keys = _unknown(CONFIGURATIONS[name], content)
    for other, each in CONFIGURATIONS.items():
        if unknown_keys and not _unknown(each, content):
            raise OptionError(
                f"{where} is not a configuration of {name}, which has no {unknown_keys[0]}, but of "
                f"{other} ({each.title}): pass --framework {other}, or name another file"
            )


def _check_spellings(where: str, content: Mapping[str, Any]) -> None:
    """Raise OptionError for a key that has two values, one with - and one with _."""
    spelled: dict[str, str] = {}
    for key, value in content.items():
        other = spelled.setdefault(str(key).replace("-", "_"), key)
        if content[other] != value:
            raise OptionError(
                f"{where}: {other}={short(content[other])} and {key}={short(value)} are one key: "
                "remove one"
            )


def _read(path: Path) -> dict[str, Any]:
    where = path.as_posix()
    if path.suffix == PICKLE:
        raise OptionError(
            f"{where} is a pickle, which could run any code: save it as JSON, with "
            "open('training_args.json', 'w').write(training_args.to_json_string())"
        )
    if path.is_dir():
        raise OptionError(f"{where} is a folder: name the configuration in it")
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{where}: a trainer's configuration ends in {', '.join(SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"no such file: {where}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8: save it as that"
        raise InputError(f"{where} cannot be read: {reason}") from None
    try:
        content = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise OptionError(f"{where} is not valid {kind}: {reason}: correct it") from None
    if not isinstance(content, dict):
        shown = "empty" if content is None else short(content)
        raise OptionError(
            f"{where} has no keys with values: it is {shown}; name the trainer's configuration"
        )
    return content


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        context = f"{error.context} " if str(error.problem).startswith("but ") else ""
        raise ValueError(f"{context}{error.problem}{place}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
