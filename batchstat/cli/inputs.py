"""Effective settings: flags override the configuration file, which overrides defaults."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.configuration import (
    KEYS,
    CheckSettings,
    Configuration,
    Setting,
    load_configuration,
)
from batchstat.cli.options.groups import was_given
from batchstat.cli.streams import say
from batchstat.cli.weights import inlined
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.schema import report_schema
from batchstat.errors import OptionError
from batchstat.gate.limits import NAMED, Limit, read_limits
from batchstat.planning.settings import Settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

COMMAND_LINE = "the command line"

_CONTENTS = {"text_column", "messages_column", "tokens_column", "length_column"}
_ONLY_FOR_OTHERS = {
    "text_column": _CONTENTS | {"chat_template"},
    "messages_column": _CONTENTS | {"strip", "min_chars"},
    "tokens_column": _CONTENTS | {"chat_template", "strip", "min_chars", "tokenizer"},
    "length_column": _CONTENTS | {"chat_template", "strip", "min_chars", "tokenizer"},
}
"""Keys of the configuration that a flag for one kind of content overrides."""


@dataclass(frozen=True)
class Inputs:
    """The values in force for one check, or for a command that checks nothing.

    Attributes:
        name: of the check.
        values: by the names of `KEYS`, with where each is set; defaults are not included.
        limits: by the quantity they limit; None for one that is off.
        table: the file, and the table in it, for settings of this check only; None without a file.
    """

    name: str
    values: Mapping[str, Setting]
    limits: Mapping[str, Limit | None]
    table: str | None = None

    @property
    def is_configured(self) -> bool:
        """Whether a configuration is in force."""
        return self.table is not None

    @property
    def held(self) -> list[Limit]:
        """The limits that are not off."""
        return [limit for limit in self.limits.values() if limit is not None]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self.values[key].value if key in self.values else default

    @property
    def corpus(self) -> tuple[str, ...]:
        """Paths and URLs of the corpus; empty if none is named."""
        return tuple(self.get("corpus", ()))

    @property
    def reading(self) -> CorpusOptions:
        """Options for reading the corpus. Raises OptionError."""
        return CorpusOptions(**self._fields_of(CorpusOptions))

    @property
    def settings(self) -> Settings:
        """Settings for batching. Raises OptionError, or InputError for a bad file of weights."""
        values = self._fields_of(Settings)
        if "sampler" in values:
            values["sampler"] = inlined(values["sampler"])
        return Settings(**values)

    def _fields_of(self, record: "type[DataclassInstance]") -> dict[str, Any]:
        names = [field.name for field in fields(record)]
        return {name: self.values[name].value for name in names if name in self.values}


def configuration(context: typer.Context) -> Configuration:
    """Return the configuration that applies to a command, and report its file.

    Raises:
        OptionError: it has invalid keys or values.
        InputError: it cannot be read.
    """
    params = context.params
    if params["no_config"]:
        if params["config"] is not None:
            raise OptionError("--config and --no-config are mutually exclusive; give one")
        return Configuration()
    found = load_configuration(params["config"])
    if found.path is not None:
        say(f"settings from {found.path}")
    return found


def inputs(context: typer.Context, check: CheckSettings) -> Inputs:
    """Return the settings in force for a check. Raises OptionError for an invalid limit."""
    flags = _flags(context)
    kept = dict(check.values)
    for content, others in _ONLY_FOR_OTHERS.items():
        if content in flags:
            for key in others:
                kept.pop(key, None)
    given = {
        name: value
        for name in NAMED
        if (value := context.params.get(name.replace("-", "_"))) is not None
    }
    limits = {**check.limits, **read_limits(given, report_schema(), COMMAND_LINE)}
    return Inputs(check.name, {**kept, **flags}, limits, check.table)


def _flags(context: typer.Context) -> dict[str, Setting]:
    found = {}
    for key in KEYS:
        if was_given(context, key):
            value = context.params[key]
            value = tuple(value) if isinstance(value, list) else value
            value = _labels(value) if key == "keep_labels" else value
            origin = "" if key == "corpus" else f"--{key.replace('_', '-')} on "
            found[key] = Setting(value, origin + COMMAND_LINE)
    return found


def _labels(written: tuple[str, ...]) -> tuple[str, ...]:
    """Parse labels separated by commas, or JSON lists of labels."""
    found: list[str] = []
    for text in written:
        if not text.startswith("["):
            found += text.split(",")
            continue
        try:
            found += [str(label) for label in json.loads(text)]
        except ValueError as error:
            raise OptionError(f"keep-labels={text!r} is not a JSON list: {error}") from None
    return tuple(found)
