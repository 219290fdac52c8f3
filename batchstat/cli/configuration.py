"""The configuration file: `[tool.batchstat]` of pyproject.toml, or batchstat.toml."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError, unknown
from batchstat.findings import known_ids
from batchstat.gate.limits import DEFAULT_CHECK, Limit, read_limits
from batchstat.parameters import whole_number
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.registry import names_strategy
from batchstat.storage.addresses import as_path, check_regular, unreadable
from batchstat.storage.shown import as_shown, is_remote
from batchstat.trainers.base.key_files import is_current_file
from batchstat.words import short

if TYPE_CHECKING:
    from batchstat.cli.options import Record

OWN_FILE, SHARED_FILE = "batchstat.toml", "pyproject.toml"

_FIELDS: dict[str, "Field[Any]"] = {
    declared.name: declared for record in (CorpusOptions, Settings) for declared in fields(record)
}
"""Fields that keys set, by name: a key's value has the type of its field. Other keys are text."""
KEYS = (
    *("corpus", "tokenizer", "chat_template", "current", "framework", "ignore_keys", "ignore"),
    *("model", "calibration", "cost_per_hour", "base", *_FIELDS),
)
"""Keys that a check may have in the file, which writes `-` for `_`."""


@dataclass(frozen=True)
class Setting:
    """A value and where it is set."""

    value: Any
    origin: str


@dataclass(frozen=True)
class CheckSettings:
    """The settings of one check in the file, those that all checks share among them."""

    name: str
    values: Mapping[str, Setting] = field(default_factory=dict)  # by the names of `KEYS`
    limits: Mapping[str, Limit | None] = field(default_factory=dict)  # by the quantity they limit
    table: str | None = None  # the file, and the table in it, for settings of this check only

    def read(self, record: "type[Record]") -> "Record":
        """Return a record, such as `Settings`, with the values of this check, else the defaults,
        and with the weights in a sampler's file. Raises OptionError, or InputError for that file.
        """
        names = {declared.name for declared in fields(record)}
        values = {key: each.value for key, each in self.values.items() if key in names}
        if "sampler" in values:
            from batchstat.cli.weights import with_inlined_weights

            values["sampler"] = with_inlined_weights(values["sampler"])
        return record(**values)


@dataclass(frozen=True)
class Configuration:
    """The contents of the file; empty if there is none."""

    path: str | None = None  # the file, as messages name it; None if there is none
    shared: CheckSettings = field(default_factory=lambda: CheckSettings(DEFAULT_CHECK))
    checks: tuple[CheckSettings, ...] = ()  # the named checks

    def check(self, name: str) -> CheckSettings:
        """Return the check with this name. Raises OptionError if there is none."""
        checks = {check.name: check for check in self.checks or (self.shared,)}
        if name not in checks:
            raise unknown("check", name, checks)
        return checks[name]


def load_configuration(file: Path | None = None) -> Configuration:
    """Load the given file, or the configuration of the nearest folder from the working folder up.
    Raise OptionError for invalid keys or values, InputError for a file that cannot be read.
    """
    path = configuration_file(file)
    if path is None:
        return Configuration()
    contents = _read_toml(path)
    shown = path if file else Path(os.path.relpath(path))
    # pyproject.toml holds the tables of many tools; any other file is batchstat's alone.
    table_name = "tool.batchstat" if path.name == SHARED_FILE else ""
    table = _own_table(contents) if table_name else contents
    if table is None:  # only of a file that the user names: others are passed over
        raise InputError(
            f"{shown.as_posix()} has no [tool.batchstat] table", "add one or run `batchstat init`"
        )
    return _Reader(path.parent, shown.as_posix(), table_name).configuration(table)


def configuration_file(file: Path | None = None) -> Path | None:
    """Return the file that is read: by default the nearest, from the working folder up; or None."""
    here = Path.cwd()
    found = (find_here(folder) for folder in (here, *here.parents))
    return file or next((path for path in found if path is not None), None)


def find_here(folder: Path) -> Path | None:
    """Return batchstat.toml of a folder, else its pyproject.toml if that has a table for batchstat.
    Raise OptionError or InputError for one that cannot be read.
    """
    if (folder / OWN_FILE).is_file():
        return folder / OWN_FILE
    shared = folder / SHARED_FILE
    if shared.is_file() and _own_table(_read_toml(shared)) is not None:
        return shared
    return None


def _own_table(contents: Mapping[str, Any]) -> Any:
    tools = contents.get("tool")
    return tools.get("batchstat") if isinstance(tools, Mapping) else None


def _read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises OptionError if it is not valid, or InputError."""
    try:
        check_regular(path)
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # skips a byte order mark
    except OSError as error:
        raise unreadable(path.as_posix(), error) from None
    except (ValueError, RecursionError) as error:  # also integers of thousands of digits
        raise OptionError(f"{path.as_posix()} is not valid TOML: {error}") from None


@dataclass(frozen=True)
class _Reader:
    """Turns the tables of one file into settings."""

    folder: Path
    file: str
    table_name: str  # the dotted name of batchstat's table; empty for the whole file

    def configuration(self, table: Any) -> Configuration:
        """Return what the table holds: shared settings, and under `checks` those of each check."""
        if not isinstance(table, Mapping):
            raise OptionError(self._origin(), "must be a table")
        try:
            self._check_numbers(table)
        except RecursionError:  # the file is the user's, who may nest thousands of tables
            raise OptionError(f"{self._origin()}: tables are nested too deeply") from None
        shared_table = {key: value for key, value in table.items() if key != "checks"}
        nothing_shared = CheckSettings(DEFAULT_CHECK)
        shared = self._check(DEFAULT_CHECK, shared_table, keys=(), shared=nothing_shared)
        tables = table.get("checks", {})
        if "checks" in table and not (isinstance(tables, Mapping) and tables):
            raise OptionError(
                self._origin("checks"), f"must name checks, as in [{self._name('checks')}.sft]"
            )
        checks = tuple(
            self._check(name, each, ("checks", name), shared=shared)
            for name, each in tables.items()
        )
        return Configuration(self.file, shared, checks)

    def _check_numbers(self, value: Any, *keys: str) -> None:
        """Raise OptionError for an integer beyond TOML's 64 bits, which tomllib accepts."""
        if isinstance(value, int) and abs(value) >= 2**63:
            raise OptionError(f"{self._origin(*keys)}={short(value)}", "must fit in 64 bits")
        entries: Any = ()
        if isinstance(value, Mapping):
            entries = value.items()
        elif isinstance(value, list):
            entries = enumerate(value)
        for key, entry in entries:
            self._check_numbers(entry, *keys, str(key))

    def _name(self, *keys: str) -> str:
        return ".".join(part for part in (self.table_name, *keys) if part)

    def _origin(self, *keys: str) -> str:
        name = self._name(*keys)
        return f"{self.file} [{name}]" if name else self.file

    def _check(
        self, name: str, table: Any, keys: tuple[str, ...], shared: CheckSettings
    ) -> CheckSettings:
        """Return the settings of one check: those of its table, over the shared ones."""
        origin = self._origin(*keys)
        if not isinstance(table, Mapping):
            raise OptionError(origin, "must be a table")
        place_of_error = origin
        try:
            values = {
                key: Setting(self._value(key, value), origin)
                for key, value in _values_by_key(table, holds_checks=not keys).items()
            }
            check = CheckSettings(name, {**shared.values, **values}, shared.limits, table=origin)
            # Raises for values that are wrong by themselves; a file is read when it is needed.
            check.read(CorpusOptions)
            settings, current = check.read(Settings), check.values.get("current")
            if current is not None and not is_current_file(current.value):
                from batchstat.planning.strategies.spec import StrategySpec

                StrategySpec.parse(current.value).checked(settings)
            place_of_error = self._origin(*keys, "limits")
            limits = read_limits(table.get("limits", {}), place_of_error)
        except OptionError as error:
            raise error.at(place_of_error) from None
        return replace(check, limits={**shared.limits, **limits})

    def _value(self, key: str, value: Any) -> Any:
        """Return the value of a key with its type, a path relative to the working folder."""
        typed = _typed(key, value)
        if key == "corpus":
            return tuple(map(self._from_working_folder, typed))
        if key in ("chat_template", "calibration"):  # always one path
            return as_path(self._from_working_folder(typed))
        if key == "sampler":
            from batchstat.planning.samplers.spec import weights_file

            file = weights_file(typed)  # `weights=FILE.json`
            return typed.replace(file, self._from_working_folder(file), 1) if file else typed
        # These take a name or a path. A name stays as it is.
        is_path = key in ("tokenizer", "base") and self._is_there(typed)
        if key == "current" and not names_strategy(typed):
            is_path = is_current_file(typed) or self._is_there(typed)
        elif key == "model":  # a known one is not taken for a folder that has the same name
            from batchstat.calibration.known_models import known_shape

            is_path = known_shape(typed) is None and self._is_there(typed)
        return self._from_working_folder(typed) if is_path else typed

    def _is_there(self, path: str) -> bool:
        try:
            return (self.folder / path).exists()
        except (OSError, ValueError):  # for example, a name that is too long
            return False

    def _from_working_folder(self, path: str) -> str:
        """Return a path relative to the file's folder as one relative to the working folder."""
        if path == "-" or is_remote(path) or Path(path).is_absolute():
            return path
        try:
            return Path(os.path.relpath(self.folder / path)).as_posix()
        except ValueError:  # on another drive
            return (self.folder / path).as_posix()


def _values_by_key(table: Mapping[str, Any], *, holds_checks: bool) -> dict[str, Any]:
    """Return the values of a check's table by the names of `KEYS`, without its limits."""
    known = {key.replace("_", "-"): key for key in KEYS}
    values = {}
    for key, value in table.items():
        if key == "limits":  # a table of its own, which is read apart
            if not isinstance(value, Mapping):
                raise OptionError("limits", "must be a table")
            continue
        if key not in known:
            raise unknown("key", key, (*known, "limits", *(["checks"] if holds_checks else [])))
        values[known[key]] = value
    return values


def _typed(key: str, value: Any) -> Any:
    """Return a value of the file with the type of its key. Raises OptionError for another type."""
    name = key.replace("_", "-")  # as messages write it
    if key in ("corpus", "text_column", "label_column", "keep_labels", "ignore_keys", "ignore"):
        values = value if isinstance(value, list) else [value]
        texts = tuple(_text(name, each) for each in values)
        return known_ids(texts) if key == "ignore" else texts
    if key == "cost_per_hour":
        if isinstance(value, bool) or not isinstance(value, int | float):  # a bool is an int, too
            raise OptionError(f"{name}={short(value)}", "must be a number")
        return float(value)
    declared_type = _FIELDS[key].type if key in _FIELDS else str
    types = get_args(declared_type) or (declared_type,)  # `int | None` has two: int and NoneType
    if bool in types:
        if not isinstance(value, bool):
            raise OptionError(f"{name}={short(value)}", "must be true or false")
        return value
    # A seed may be 0. For settings that may not, the record that takes them refuses it.
    return whole_number(name, value, min_value=0) if int in types else _text(name, value)


def _text(name: str, value: Any) -> str:
    """Return a text; an address does not show its secrets. Raises OptionError for other values."""
    if name.endswith("-column") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # a file without a header has numbers for names of columns
    if not isinstance(value, str) or not value:
        raise OptionError(f"{name}={short(value)}", "must be text")
    return as_shown(value)
