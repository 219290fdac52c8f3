"""The recommendation of the comparison in the results folder, for the commands that use it."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from batchstat.documents.comparison import CompareFile, LearningRateHint
from batchstat.documents.parts import parts
from batchstat.documents.profile import of_corpus
from batchstat.errors import InputError
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.profiling.profile import Profile
from batchstat.render.recipes.writing import Origin
from batchstat.storage.addresses import check_regular, read_bytes
from batchstat.storage.result_files import COMPARE_FILE
from batchstat.storage.sealed_records import parse, require_schema
from batchstat.storage.shown import one_line

_REMEDY = "run batchstat compare again, or name a strategy with --strategy"


@dataclass(frozen=True)
class Recommendation:
    """The best strategy of a comparison.

    Attributes:
        strategy: the strategy.
        settings: what the comparison decided, as far as the strategy depends on it.
        origin: the comparison, and what changes for the learning rate.
        argument: what the user's own trainer is to be passed for it; empty if it has no argument.
    """

    strategy: StrategySpec
    settings: Settings
    origin: Origin
    argument: str = ""


class _FewerSamplesError(Exception):
    """A comparison of fewer samples than its profile has."""


def find_recommendation(folder: Path, profile: Profile) -> Recommendation | None:
    """Return what the comparison in a results folder recommends; None if there is none of this
    profile.

    Raises:
        InputError: the comparison cannot be read, has another schema, or has no best strategy.
    """
    path = folder / COMPARE_FILE
    shown = path.as_posix()
    try:
        check_regular(path)
        record = parse(read_bytes(path))
        require_schema(record, CompareFile.number)
        if not _is_of(record, profile):
            return None
        kept = record["corpus"]["samples"]
        best, current = record["choice"]["best"], record["choice"]["current"]
        if best is not None:
            basis = ResolvedSettings(**parts(ResolvedSettings).json(record["basis"]))
            strategy = StrategySpec.parse(best)
            settings = _settings(strategy.request(basis), basis)
            StrategySpec.parse(current).request(basis)
            if kept != len(profile):
                raise _FewerSamplesError(kept)
            hint = LearningRateHint(float(record["learning_rate"]["batch_ratio"]))
            argument = record["choice"]["argument"] or ""
            return Recommendation(strategy, settings, Origin(shown, current, hint), argument)
    except FileNotFoundError:
        return None
    except _FewerSamplesError as error:
        raise InputError(
            f"{shown} is of the {error.args[0]:,} samples that a trainer's configuration keeps, "
            f"but a recipe trains on all {len(profile):,}: pass a corpus of those alone, or name "
            "a strategy with --strategy"
        ) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{shown} cannot be used ({one_line(error)}): {_REMEDY}") from None
    raise InputError(
        f"{shown} recommends no strategy, as each exceeds the budget or loses too much: {_REMEDY}"
    )


def _is_of(record: Any, profile: Profile) -> bool:
    """Return whether a comparison has the corpus and the tokenizer of a profile."""
    own = of_corpus(profile)
    # A comparison may be of fewer samples than its profile has.
    corpora = [{**each["corpus"], "samples": None} for each in (record, own)]
    return corpora[0] == corpora[1] and bool(record["tokenizer"] == own["tokenizer"])


def _settings(request: RowRequest, basis: ResolvedSettings) -> Settings:
    """Return the settings of a comparison, without a batch size that the strategy does not use."""
    size = None if request.sets("batch_size") else request.params.get("batch_size")
    values = {each.name: getattr(basis, each.name) for each in fields(Settings)}
    return Settings(**values | {"batch_size": size})
