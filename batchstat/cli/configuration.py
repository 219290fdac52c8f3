"""The configuration file: `[tool.batchstat]` of pyproject.toml, or batchstat.toml."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from batchstat.calibration.known_models import known_shape
from batchstat.cli.weights import inlined
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import BatchstatError, InputError, OptionError, short, unknown
from batchstat.gate.limits import Limit, read_limits
from batchstat.parameters import whole_number
from batchstat.planning.samplers.spec import weights_file
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.storage.addresses import as_path, check_regular
from batchstat.storage.shown import as_shown, is_remote
from batchstat.trainers.base.named import is_current_file

if TYPE_CHECKING:
    from batchstat.cli.options import Record

OWN_FILE, SHARED_FILE = "batchstat.toml", "pyproject.toml"
DEFAULT_CHECK = "default"

_PATHS = ("corpus", "chat_template", "calibration", "baseline")
_FIELDS: dict[str, "Field[Any]"] = {
    each.name: each for record in (CorpusOptions, Settings) for each in fields(record)
}
KEYS = (
    *("corpus", "tokenizer", "chat_template", "current", "framework", "ignore_keys"),
    *("model", "calibration", "cost_per_hour", "baseline", *_FIELDS),
)
"""Keys of a check, as fields; written with `-` for `_`."""


@dataclass(frozen=True)
class Setting:
    """A value and where it is set."""

    value: Any
    origin: str


@dataclass(frozen=True)
class CheckSettings:
    """The settings of one check in the file, including those shared by all checks.

    Attributes:
        name: its name in the file.
        values: by the names of `KEYS`.
        limits: by the quantity they limit; None for one that is off.
        table: the file, and the table in it, for settings of this check only; None without a file.
    """

    name: str
    values: Mapping[str, Setting] = field(default_factory=dict)
    limits: Mapping[str, Limit | None] = field(default_factory=dict)
    table: str | None = None

    def read(self, record: "type[Record]") -> "Record":
        """Return the options of a record, with the contents of a file of weights.

        Raises:
            OptionError: a value that is wrong by itself.
            InputError: a bad file of weights.
        """
        names = [each.name for each in fields(record) if each.name in self.values]
        values = {name: self.values[name].value for name in names}
        if "sampler" in values:
            values["sampler"] = inlined(values["sampler"])
        return record(**values)


@dataclass(frozen=True)
class Configuration:
    """The contents of the file; empty if there is none.

    Attributes:
        path: the file, as messages name it; None if there is none.
        shared: settings of every check; the only check if none is named.
        checks: the named checks.
    """

    path: str | None = None
    shared: CheckSettings = field(default_factory=lambda: CheckSettings(DEFAULT_CHECK))
    checks: tuple[CheckSettings, ...] = ()

    def check(self, name: str) -> CheckSettings:
        """Return the check with this name. Raises OptionError if there is none."""
        found = {each.name: each for each in self.checks or (self.shared,)}
        if name not in found:
            raise unknown("check", name, found)
        return found[name]


def load_configuration(file: Path | None = None) -> Configuration:
    """Load a configuration: the given file, or the one in the working folder or the nearest folder
    above it.

    Raises:
        OptionError: the file has invalid keys or values.
        InputError: it cannot be read.
    """
    found = file or _find(Path.cwd())
    if found is None:
        return Configuration()
    table = _read(found)
    shown = found if file else Path(os.path.relpath(found))
    name = "tool.batchstat" if found.name == SHARED_FILE else ""
    own = _own(table) if name else table
    if own is None:
        raise InputError(
            f"{shown.as_posix()} has no [tool.batchstat] table; add one or run `batchstat init`"
        )
    return _Reader(found.parent, shown.as_posix(), name).configuration(own)


def is_configured() -> bool:
    """Return whether a command finds a configuration, even an unreadable one."""
    try:
        return _find(Path.cwd()) is not None
    except BatchstatError:
        return True


def _find(folder: Path) -> Path | None:
    found = (find_here(each) for each in (folder, *folder.parents))
    return next((path for path in found if path is not None), None)


def find_here(folder: Path) -> Path | None:
    """Return the file in a folder that configures batchstat.

    Raises:
        OptionError: a pyproject.toml that is not valid TOML.
        InputError: one that cannot be read.
    """
    if (folder / OWN_FILE).is_file():
        return folder / OWN_FILE
    shared = folder / SHARED_FILE
    if shared.is_file() and _own(_read(shared)) is not None:
        return shared
    return None


def _own(table: Mapping[str, Any]) -> Any:
    """Return batchstat's table of a pyproject.toml; None if it has none."""
    tools = table.get("tool")
    return tools.get("batchstat") if isinstance(tools, Mapping) else None


def _read(path: Path) -> dict[str, Any]:
    try:
        check_regular(path)
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path.as_posix()} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # also integers of thousands of digits
        raise OptionError(f"{path.as_posix()} is not valid TOML: {error}") from None


@dataclass(frozen=True)
class _Reader:
    """Tables of one file.

    Attributes:
        folder: folder of the file, to which its paths are relative.
        file: the file, as messages name it.
        table: the dotted name of batchstat's table; empty for the whole file.
    """

    folder: Path
    file: str
    table: str

    def configuration(self, table: Any) -> Configuration:
        if not isinstance(table, Mapping):
            raise OptionError(f"{self._origin()}: must be a table")
        try:
            self._check_numbers(table)
        except RecursionError:
            raise OptionError(f"{self._origin()}: tables are nested too deeply") from None
        own = {key: value for key, value in table.items() if key != "checks"}
        shared = self._check(DEFAULT_CHECK, own, (), CheckSettings(DEFAULT_CHECK), ("checks",))
        named = table.get("checks", {})
        if "checks" in table and not (isinstance(named, Mapping) and named):
            raise OptionError(
                f"{self._origin('checks')}: must name checks, as in [{self._name('checks')}.sft]"
            )
        checks = tuple(
            self._check(name, each, ("checks", name), shared) for name, each in named.items()
        )
        return Configuration(self.file, shared, checks)

    def _check_numbers(self, table: Any, *below: str) -> None:
        """Raise OptionError for an integer beyond TOML's 64 bits, which tomllib accepts."""
        if isinstance(table, int) and abs(table) >= 2**63:
            raise OptionError(f"{self._origin(*below)}={short(table)}: must fit in 64 bits")
        inside = table.items() if isinstance(table, Mapping) else ()
        for key, value in enumerate(table) if isinstance(table, list) else inside:
            self._check_numbers(value, *below, str(key))

    def _name(self, *below: str) -> str:
        return ".".join(part for part in (self.table, *below) if part)

    def _origin(self, *below: str) -> str:
        name = self._name(*below)
        return f"{self.file} [{name}]" if name else self.file

    def _check(
        self,
        name: str,
        table: Any,
        below: tuple[str, ...],
        shared: CheckSettings,
        also: tuple[str, ...] = (),
    ) -> CheckSettings:
        origin = self._origin(*below)
        if not isinstance(table, Mapping):
            raise OptionError(f"{origin}: must be a table")
        try:
            own = {
                key: Setting(self._value(key, value), origin)
                for key, value in _by_field(table, also).items()
            }
            found = CheckSettings(name, {**shared.values, **own}, shared.limits, origin)
            _validate(found)
            origin = self._origin(*below, "limits")
            limits = read_limits(table.get("limits", {}), origin)
        except OptionError as error:
            raise OptionError(f"{origin}: {error}") from None
        return replace(found, limits={**shared.limits, **limits})

    def _value(self, key: str, value: Any) -> Any:
        typed = _typed(key, value)
        if key in _PATHS:
            located = [self._located(each) for each in ([typed] if key != "corpus" else typed)]
            return tuple(located) if key == "corpus" else as_path(located[0])
        if key == "current" and is_current_file(self._located(typed)):
            return self._located(typed)
        is_name = key == "model" and known_shape(typed) is not None
        if key in ("tokenizer", "model") and not is_name and self._is_there(typed):
            return self._located(typed)
        if key == "sampler" and (file := weights_file(typed)):
            return typed.replace(file, self._located(file), 1)
        return typed

    def _is_there(self, path: str) -> bool:
        try:
            return (self.folder / path).exists()
        except (OSError, ValueError):  # for example, a name that is too long
            return False

    def _located(self, path: str) -> str:
        """Return a path relative to the file's folder as one relative to the working folder."""
        if path == "-" or is_remote(path) or Path(path).is_absolute():
            return path
        try:
            return Path(os.path.relpath(self.folder / path)).as_posix()
        except ValueError:  # on another drive
            return (self.folder / path).as_posix()


def _by_field(table: Mapping[str, Any], also: tuple[str, ...]) -> dict[str, Any]:
    known = {key.replace("_", "-"): key for key in KEYS}
    found = {}
    for key, value in table.items():
        if key == "limits":
            if not isinstance(value, Mapping):
                raise OptionError("limits: must be a table")
            continue
        if key not in known:
            raise unknown("key", key, (*known, "limits", *also))
        found[known[key]] = value
    return found


def _typed(key: str, value: Any) -> Any:
    """Return a value with its field's type. Raises OptionError for another type."""
    name = key.replace("_", "-")
    known = _FIELDS[key].type if key in _FIELDS else str
    types = get_args(known) or (known,)
    if key in ("corpus", "text_column", "keep_labels", "ignore_keys"):
        values = value if isinstance(value, list) else [value]
        return tuple(_text(name, each) for each in values)
    if key == "cost_per_hour":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OptionError(f"{name}={short(value)}: must be a number")
        return float(value)
    if bool in types:
        if not isinstance(value, bool):
            raise OptionError(f"{name}={short(value)}: must be true or false")
        return value
    return whole_number(name, value, min_value=0) if int in types else _text(name, value)


def _text(name: str, value: Any) -> str:
    if name.endswith("-column") and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # columns without a header are numbered
    if not isinstance(value, str) or not value:
        raise OptionError(f"{name}={short(value)}: must be text")
    return as_shown(value)


def _validate(check: CheckSettings) -> None:
    """Raise OptionError for values that are wrong by themselves."""
    check.read(CorpusOptions)
    settings = check.read(Settings)
    current = check.values.get("current")
    if current is not None and not is_current_file(current.value):
        StrategySpec.parse(current.value).checked(settings)
