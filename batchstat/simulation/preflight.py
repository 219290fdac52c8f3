"""`preflight`: what a trainer's own configuration does to a corpus."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.frameworks import CONFIGURATIONS
from batchstat.frameworks.files import check_files, read_setup
from batchstat.frameworks.samples import TrainedSamples, without_remainder
from batchstat.frameworks.setup import EpochSize, TrainingSetup
from batchstat.parameters import checks_keywords
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.profiling.build import profile as count
from batchstat.profiling.inputs import has_columns
from batchstat.profiling.profile import Profile
from batchstat.simulation.compare import simulate
from batchstat.simulation.results import ReportWarning, Simulation
from batchstat.tokenization.builtin import NAME as BUILTIN
from batchstat.tokenization.loading import load_tokenizer
from batchstat.tokenization.turns_apart import check_turns

LEAST_SPEED_UP = 1.05
"""Changes that save less are not shown."""
MOST_LOST = 0.005
"""Share of the corpus that a change may lose beyond what is lost already."""


_CONTENTS = ("text_column", "prompt_column", "tokens_column", "length_column")
_OF_CHATS = ("messages_column", "assistant_only_loss", "chat_template", "input_format")
"""Keywords of a configuration that those for another content replace."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Another value for some keys of the configuration, and what it gives.

    Attributes:
        keys: the keys with their values.
        simulation: the same corpus with these.
        speed_up: compute of the configuration as it is / compute with the change.
    """

    keys: Mapping[str, Any]
    simulation: Simulation
    speed_up: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Preflight:
    """What a trainer does with a corpus by its own configuration.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml")
        >>> report
        Preflight('hf-trainer:batch_size=4', 25.5% padding, 15 steps per epoch, 45 in all)

    Attributes:
        created: time of creation, ISO 8601 in UTC.
        setup: what the configuration means.
        profile: the corpus, before the trainer drops anything.
        samples: what it keeps of it.
        simulation: an epoch of it.
        changes: changes that save compute, those that save most first.
    """

    created: str
    setup: TrainingSetup
    profile: Profile
    samples: TrainedSamples
    simulation: Simulation
    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        """Return the setup, its padding and its steps on one line."""
        counts = self.simulation.row.counts
        return (
            f"Preflight({self.setup.strategy!r}, {counts.padding_ratio:.1%} padding, "
            f"{self.steps_per_epoch:,} steps per epoch, "
            f"{self.total_steps:,} in all)"
        )

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return self.simulation.row.counts.steps

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.setup.schedule.total_steps(self._epoch)

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up."""
        return self.setup.schedule.warmup_steps(self._epoch)

    @property
    def _epoch(self) -> EpochSize:
        counts, ranks = self.simulation.row.counts, self.simulation.basis.world_size
        return EpochSize(
            samples=len(self.samples.profile),
            batches=counts.batches // ranks,
            steps=counts.steps,
            world_size=ranks,
        )

    @property
    def warnings(self) -> tuple[ReportWarning, ...]:
        """What the report may not be true of, and what else to know about its numbers."""
        found = [*self.setup.warnings, *self.samples.warnings]
        counter = self.profile.tokenizer
        if counter is not None and counter.name == BUILTIN:
            named = self.setup.reading.get("tokenizer")
            why = "names no tokenizer" if named is None else f"trains with {named}"
            found.append(
                f"the configuration {why}, but the built-in one counted: pass the one that you "
                "train with, --tokenizer"
            )
        own = (ReportWarning("configuration", message) for message in found)
        # The remedy for unequal weights is a setting that a trainer does not have.
        others = (
            replace(each, message=self.setup.with_own_keys(each.message))
            for each in self.simulation.warnings
            if each.code != "token_weights"
        )
        return (*own, *others)


@checks_keywords(Settings)
def preflight(
    config: str | Path,
    profile: Profile | None = None,
    *,
    framework: str | None = None,
    **settings: Unpack[SettingsOptions],
) -> Preflight:
    """Report what a trainer's own configuration does to a corpus.

    Args:
        config: a JSON or YAML file of transformers' `TrainingArguments`, TRL's `SFTConfig`,
            the configuration of axolotl, torchtune or verl's SFT or PPO trainer, or the arguments
            of LLaMA-Factory, ms-swift or slime.
        profile: the corpus, counted as `profile_keywords` says; by default the one that the
            configuration names. For reinforcement learning, its rollouts.
        framework: the one that it is for; by default the one that knows most of its keys.
        settings: fields of `batchstat.Settings` that it does not have, such as `world_size=8`;
            others override it.

    Example:
        >>> report = batchstat.preflight("sample_data/sft.yaml", world_size=4)
        >>> report.total_steps, report.warmup_steps
        (12, 1)
        >>> report.changes[0].keys
        {'packing': True}

    Raises:
        OptionError: a configuration with an unknown key, an invalid value, or one whose batches are
            not modelled.
        InputError: a configuration, corpus or tokenizer that is not available.
    """
    setup = read_setup(config, framework)
    if profile is None:
        profile = count(**profile_keywords(setup))
    samples, simulation = _simulated(setup, profile, settings)
    found = []
    for keys in CONFIGURATIONS[setup.framework].alternatives(setup):
        changed = _change(config, setup, keys, profile, settings, simulation)
        found += [changed] if changed is not None else []
    return Preflight(
        created=datetime.now(UTC).isoformat(),
        setup=setup,
        profile=profile,
        samples=samples,
        simulation=simulation,
        changes=tuple(sorted(found, key=lambda each: -each.speed_up)),
    )


def profile_keywords(setup: TrainingSetup, **given: Any) -> dict[str, Any]:
    """Return the keywords of `batchstat.profile` for the corpus of a configuration.

    Args:
        setup: what the configuration means.
        given: keywords that override it.

    Raises:
        InputError: it names no corpus, one that cannot be read or lacks the trainer's columns, a
            tokenizer without an end-of-sequence token, or another chat template than the trainer's.
    """
    others = set(_CONTENTS) & set(given)
    own = {key: value for key, value in setup.reading.items() if key not in _OF_CHATS}
    found = {**(own if others else setup.reading), **given}
    if not found.get("corpus"):
        raise InputError(setup.no_corpus)
    if "corpus" not in given:
        check_files(setup, found["corpus"])
    if isinstance(found["corpus"], str | Path):
        found["corpus"] = (found["corpus"],)
    if not any(key.endswith("_column") for key in found):
        found |= _columns(setup, found["corpus"][0])
    is_text = not {"messages_column", "tokens_column", "length_column", "append"} & set(found)
    if setup.appends_eos and is_text and (named := found.get("tokenizer")):
        found["append"] = _end_of_sequence(named)
    if "messages_column" in found:
        _check_turns(setup, found)
    elif "chat_template" not in given:
        found.pop("chat_template", None)
    return found


def _check_turns(setup: TrainingSetup, found: Mapping[str, Any]) -> None:
    """Raise InputError if a trainer tokenizes turns of chats otherwise than the whole."""
    if setup.turns is None:
        return
    template = found.get("chat_template")
    if setup.turns.unknown_template and template is None:
        raise InputError(f"{setup.path.as_posix()} {setup.turns.unknown_template}")
    file = None if template is None else Path(template)
    rules = setup.turns
    check_turns(found.get("tokenizer"), file, rules.special_tokens, rules.begin, rules.thought)


def _columns(setup: TrainingSetup, path: str) -> Mapping[str, Any]:
    """Return those of the trainer's columns that a corpus has."""
    lacks_columns = []
    for columns in setup.columns:
        found = has_columns(path, CorpusOptions(**columns))
        if found:
            return columns
        lacks_columns.append(found is None)
    if setup.no_columns and all(lacks_columns):
        raise InputError(f"{path} {setup.no_columns}")
    # What is wrong with the last of them is the message.
    return setup.columns[-1] if setup.columns else {}


def _end_of_sequence(tokenizer: str) -> str:
    token = load_tokenizer(tokenizer).encoder.as_transformers().eos_token
    if not token:
        raise InputError(
            f"tokenizer {tokenizer!r} has no end-of-sequence token, which the trainer appends to "
            "texts: pass one with --append"
        )
    return str(token)


def _settings(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> dict[str, Any]:
    found = {**setup.settings, **settings}
    if setup.max_length_of_corpus and "max_length" not in settings:
        found["max_length"] = profile.stats.max
    return found


def as_trained(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> tuple[TrainedSamples, Settings]:
    """Return what a trainer keeps of a corpus, and the settings for it; those given override its.

    Raises:
        OptionError: settings that contradict each other.
        InputError: it keeps no sample.
    """
    wanted = Settings(**_settings(setup, profile, settings))
    limit = wanted.resolve(longest=profile.stats.max, stated_max=profile.stated_max).max_length
    samples = setup.prepare(profile, limit)
    if setup.leaves_out_remainder:
        samples = without_remainder(samples, wanted.world_size)
    if samples.profile.trained is None:
        wanted = replace(wanted, loss=None)
    return samples, wanted


def _simulated(
    setup: TrainingSetup, profile: Profile, settings: Mapping[str, Any]
) -> tuple[TrainedSamples, Simulation]:
    samples, wanted = as_trained(setup, profile, settings)
    try:
        return samples, simulate(samples.profile, setup.strategy, wanted)
    except (InputError, OptionError) as error:
        message = setup.with_own_keys(str(error))
        if message == str(error):
            raise
        kind = OptionError if isinstance(error, OptionError) else InputError
        raise kind(message) from None


def _change(
    config: str | Path,
    setup: TrainingSetup,
    keys: Mapping[str, Any],
    profile: Profile,
    settings: Mapping[str, Any],
    now: Simulation,
) -> Change | None:
    """Return what other values of some keys give; None if they save too little, or lose more."""
    try:
        changed = read_setup(config, setup.framework, keys)
    except OptionError:  # they contradict other keys
        return None
    try:
        _, simulation = _simulated(changed, profile, settings)
    except InputError:  # this corpus does not go with them
        return None
    before, after = now.row.counts, simulation.row.counts
    speed_up = before.compute / after.compute
    if speed_up < LEAST_SPEED_UP or after.lost_ratio > before.lost_ratio + MOST_LOST:
        return None
    return Change(keys=keys, simulation=simulation, speed_up=speed_up)
