"""Effective settings: flags override the configuration file, which overrides defaults."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchstat.cli.configuration import (
    KEYS,
    CheckSettings,
    Configuration,
    Setting,
    load_configuration,
)
from batchstat.cli.current import settings_of_recording, settings_of_setup
from batchstat.cli.options import Options
from batchstat.cli.records import ConfigFile, Folder
from batchstat.cli.streams import say, warn
from batchstat.errors import OptionError
from batchstat.findings import Finding, known_ids, without_ignored
from batchstat.gate.limits import DEFAULT_CHECK, Limit, in_force, read_limits
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.planning.settings import DEFAULT_CURRENT, Settings
from batchstat.trainers.base.key_files import is_current_file

if TYPE_CHECKING:
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.profiling.profile import Profile
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.changes import CurrentTraining
    from batchstat.trainers.preflight.observed import Observed

COMMAND_LINE = "the command line"  # the end of `Setting.origin` for what flags set

_CONTENTS = {
    *("text_column", "prompt_column", "completion_column"),
    *("messages_column", "tokens_column", "length_column"),
}
_OF_CHATS = {"chat_template", "assistant_only_loss", "chat_format"}
_OF_TEXTS = {"strip", "min_chars", "append", "tokenizer"}
_REPLACED_BY_FLAG = {
    "text_column": _CONTENTS | _OF_CHATS,
    "completion_column": (_CONTENTS - {"prompt_column"})
    | _OF_CHATS
    | {"strip", "min_chars", "trained_column"},
    "messages_column": _CONTENTS | {"strip", "min_chars", "append"},
    "tokens_column": _CONTENTS | _OF_CHATS | _OF_TEXTS,
    "length_column": _CONTENTS | _OF_CHATS | _OF_TEXTS,
}
"""Keys that do not go with the content a flag names: `--tokens-column` replaces a text-column."""


@dataclass(frozen=True, kw_only=True)
class Inputs(CheckSettings):
    """What a command works with: the options given, and the values in force for one check; without
    a check, the default one. The current setup is a strategy; or a trainer's configuration, which
    then is `setup`; or a recording, which then is `observed`, and `setup` what its arguments mean.
    """

    options: Options
    setup: "TrainingSetup | None" = None  # what the trainer's configuration means
    observed: "Observed | None" = None  # what was recorded; None for a strategy or a configuration

    @cached_property
    def current(self) -> "StrategySpec | None":
        """The strategy of the current setup; None if none is named, or for a recording."""
        if self.observed is not None:
            return None
        if self.setup is not None:
            return self.setup.batching.strategy
        if (spec := self.get("current")) is None:
            return None
        # Not loaded by a command that needs no strategy.
        from batchstat.planning.strategies.spec import StrategySpec

        return StrategySpec.parse(spec)

    @property
    def current_text(self) -> str:
        """The current setup as text; without one, the default strategy."""
        if self.observed is not None:
            return self.observed.kind
        return DEFAULT_CURRENT if self.current is None else self.current.text

    @property
    def decided_by_setup(self) -> dict[str, Any]:
        """The values that the trainer's configuration or recording decides, by their keys."""
        origins = set() if self.setup is None else {self.setup.path.as_posix()}
        if self.observed is not None:  # the source of its samples is its folder
            origins.add(self.observed.profile.corpus.sources[0].path)
        return {key: each.value for key, each in self.values.items() if each.origin in origins}

    def training(self, profile: "Profile") -> "CurrentTraining":
        """Return what the current setup trains on: samples, settings and a strategy or batches.
        Raises OptionError: a setting that the recording decides; InputError: no sample is kept.
        """
        from batchstat.trainers.preflight.named import trained_today

        own_keys = self.values.keys() - self.decided_by_setup
        overriding = {key: each for key, each in vars(self.settings).items() if key in own_keys}
        training = trained_today(self.observed or self.setup or self.current, profile, overriding)
        # The profile in the results folder may have been counted by another tokenizer.
        if self.setup is None or self.corpus or (counter := profile.tokenizer) is None:
            return training
        trains_with = self.setup.corpus.reading.get("tokenizer")
        # As paths, ./qwen and qwen are equal.
        if not trains_with or Path(trains_with) == Path(counter.name):
            return training
        warning = Finding(
            "tokenizer/other",
            f"{self.setup.path.as_posix()} trains with the tokenizer {trains_with}, but "
            f"{counter.name} counted the profile: pass the corpus, too",
        )
        return replace(training, warnings=(*training.warnings, warning))

    @property
    def limits_in_force(self) -> list[Limit]:
        """The limits that are not off, and those that comparing with a base adds."""
        return in_force(self.limits, self.get("base") is not None)

    @property
    def output(self) -> Path:
        """The results folder."""
        return self.options.read(Folder).output

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self.values[key].value if key in self.values else default

    def shown(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that are not ignored."""
        return without_ignored(findings, self.get("ignore", ()))

    def warn(self, *findings: Finding) -> None:
        """Print findings to standard error, except those that are ignored."""
        warn(*self.shown(findings))

    @property
    def corpus(self) -> tuple[str, ...]:
        """Paths and URLs of the corpus; empty if none is named."""
        return tuple(self.get("corpus", ()))

    @property
    def settings(self) -> Settings:
        """Settings for batching. Raises OptionError, or InputError for a bad file of weights."""
        return self.read(Settings)


def read_configuration(options: Options) -> Configuration:
    """Return the configuration of a command, and name its file on standard error. Raise OptionError
    for wrong keys or values, InputError for a file that cannot be read.
    """
    file = options.read(ConfigFile)
    if file.no_config:
        if file.config is not None:
            raise OptionError("--config and --no-config are mutually exclusive", "give one")
        return Configuration()
    configuration = load_configuration(file.config)
    if configuration.path is not None:
        say(f"settings from {configuration.path}")
    return configuration


def read_ignored() -> CheckSettings:
    """Return only which findings the configuration ignores. Raises as `read_configuration`."""
    shared = load_configuration().shared
    ignored = {key: setting for key, setting in shared.values.items() if key == "ignore"}
    return CheckSettings(DEFAULT_CHECK, ignored)


def read_inputs(
    options: Options, check: CheckSettings | None = None, setup: "TrainingSetup | None" = None
) -> Inputs:
    """Return the settings in force for a check: flags over the configuration file over defaults. A
    current setup that is a trainer's configuration or a recording decides settings, too, right
    below the layer that names it. Raises OptionError: an invalid limit, or a configuration with
    invalid keys or values; InputError: the configuration cannot be read.
    """
    if check is None:
        check = read_configuration(options).shared
    flags, file_values = _flags(options), check.values
    # A setup that the caller has read is named by an argument, which counts as a flag.
    is_named_by_flag = setup is not None or "current" in flags
    observed = None  # what was recorded, if the current setup is a recording
    if setup is None:
        setup, observed = _read_current_setup({**file_values, **flags})
    if is_named_by_flag:
        below, above = file_values, flags
    else:
        below, above = {}, {**file_values, **flags}
    setup_values: dict[str, Setting] = {}
    if observed is not None:
        # It brings its own samples: settings above it that read a corpus are refused.
        setup_values = settings_of_recording(observed, overriding=above)
    elif setup is not None:
        # The corpus, whose columns decide too, may be named in a layer above or below.
        setup_values = settings_of_setup(setup, overriding=above, overridden=below)
    values = {**below, **setup_values, **above}
    for flag in _REPLACED_BY_FLAG.keys() & flags.keys():
        for key in _REPLACED_BY_FLAG[flag] - flags.keys():
            values.pop(key, None)
    options_by_limit = {name: name.replace("-", "_") for name in NAMED_LIMITS}
    limits = {
        name: options.given[key] for name, key in options_by_limit.items() if key in options.given
    }
    return Inputs(
        name=check.name,
        values=values,
        limits={**check.limits, **read_limits(limits, COMMAND_LINE)},
        table=check.table,
        options=options,
        setup=setup,
        observed=observed,
    )


def _read_current_setup(
    settings: Mapping[str, Setting],
) -> "tuple[TrainingSetup | None, Observed | None]":
    """Read the current setup, if it is a file or a folder."""
    values = {key: setting.value for key, setting in settings.items()}
    current = values.get("current")
    if current is None or not is_current_file(current):
        return None, None
    # Imported here: a command whose current setup is a strategy needs none of it.
    from batchstat.trainers.base.setup import TrainingSetup
    from batchstat.trainers.preflight.named import read_current
    from batchstat.trainers.preflight.observed import Observed

    read = read_current(current, values.get("framework"), values.get("ignore_keys") or ())
    if isinstance(read, Observed):
        return read.setup, read
    assert isinstance(read, TrainingSetup)
    return read, None


def _flags(options: Options) -> dict[str, Setting]:
    """Return the settings on the command line, by the names of `KEYS` and `strategy`."""
    settings = {}
    for key in (*KEYS, "strategy"):
        if key in options.given:
            value = options.given[key]
            value = _labels(value) if key == "keep_labels" else value
            value = known_ids(value) if key == "ignore" else value
            # The corpus is an argument and has no flag.
            origin = "" if key == "corpus" else f"--{key.replace('_', '-')} on "
            settings[key] = Setting(value, origin + COMMAND_LINE)
    return settings


def _labels(written: tuple[str, ...]) -> tuple[str, ...]:
    """Parse labels that are separated by commas, or a JSON list for labels with commas in them."""
    labels: list[str] = []
    for text in written:
        if not text.startswith("["):
            labels += text.split(",")
            continue
        try:
            labels += [str(label) for label in json.loads(text)]
        except ValueError as error:
            raise OptionError(f"keep-labels={text!r} is not a JSON list: {error}") from None
    return tuple(labels)
