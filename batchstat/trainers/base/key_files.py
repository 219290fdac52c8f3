"""The files that a current setup may be; the keys of a configuration in JSON or YAML."""

import json
import os
import stat
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, OptionError
from batchstat.planning.strategies.registry import names_strategy
from batchstat.storage.addresses import unreadable
from batchstat.words import short

SUFFIXES = (".json", ".yaml", ".yml")
PICKLE = ".bin"  # the ending of training_args.bin, which is not read: a message says so
_MOST_BYTES = 4 << 20  # bytes of a configuration: so many of YAML take some ten seconds to read
_MOST_VALUES = 100_000  # of a configuration, those that YAML repeats counted as often


def names_configuration(current: str) -> bool:
    """Return whether a current setup names a trainer's configuration, by its ending."""
    return current.endswith((*SUFFIXES, PICKLE))


def names_recording(current: str) -> bool:
    """Return whether a current setup names the folder of a recording, and no strategy.
    `runs/monday` is a folder even where it is missing, so that the message is about a folder.
    """
    # Path.is_dir raises OSError for a name that is too long.
    is_folder = os.path.isdir(current)  # noqa: PTH112
    # What follows a ":" are parameters of a (misspelt) strategy, where a "/" shows nothing.
    return not names_strategy(current) and ("/" in current.partition(":")[0] or is_folder)


def is_current_file(current: str) -> bool:
    """Return whether a current setup is a file or a folder, and no strategy."""
    return names_configuration(current) or names_recording(current)


def read_keys(path: Path) -> dict[str, Any]:
    """Return the keys of a JSON or YAML file with their values. Raises OptionError: not a
    configuration but a pickle, a folder, no JSON or YAML; InputError: not opened or decoded.
    """
    where = path.as_posix()
    if path.suffix == PICKLE:
        raise OptionError(
            f"{where} is a pickle, which could run any code",
            "save it as JSON, with "
            "open('training_args.json', 'w').write(training_args.to_json_string())",
        )
    try:
        if path.is_dir():  # raises OSError for a name that is too long
            raise OptionError(f"{where} is a folder", "name the configuration in it")
        if path.suffix not in SUFFIXES:
            raise OptionError(f"{where}: a trainer's configuration ends in {', '.join(SUFFIXES)}")
        # A pipe or device, whose reading would not end, or too large a file.
        if not stat.S_ISREG((facts := path.stat()).st_mode):
            raise OptionError(f"{where} is not a regular file", "name the trainer's configuration")
        if facts.st_size > _MOST_BYTES:
            what = f"more than a configuration has ({_MOST_BYTES:,})"
            remedy = "name the trainer's configuration"
            raise OptionError(f"{where} has {facts.st_size:,} bytes, {what}", remedy)
        text = path.read_text(encoding="utf-8-sig")  # Windows editors begin it with a BOM
    except OSError as error:
        raise unreadable(where, error) from None
    except UnicodeDecodeError:
        raise InputError(f"{where} is not UTF-8", "save it as that") from None
    try:
        content = json.loads(text) if path.suffix == ".json" else _parse_yaml(text)
        _count_values(content, {})
    except (ValueError, RecursionError) as error:  # RecursionError: lists in lists, ever deeper
        reason = " ".join(str(error).split())[:200]
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise OptionError(f"{where} is not valid {kind}: {reason}", "correct it") from None
    if not isinstance(content, dict):
        shown = "empty" if content is None else short(content)
        raise OptionError(
            f"{where} contains no settings, it is {shown}", "pass the trainer's configuration file"
        )
    return content


def _count_values(value: Any, counted: dict[int, int]) -> int:
    """Count the values in a table or list: aliases of YAML can stand for more than fit in memory.
    Raises ValueError for more than `_MOST_VALUES`, or a table or list that contains itself.
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
        # PyYAML splits a sentence: "expected a single document", "but found another document".
        context = f"{error.context} " if str(error.problem).startswith("but ") else ""
        raise ValueError(f"{context}{error.problem}{place}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
