"""The recommendation of the comparison in the results folder, for the commands that use it."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from batchstat.documents.comparison import CompareFile, LearningRateHint
from batchstat.documents.parts import parts
from batchstat.documents.profile import of_corpus
from batchstat.errors import InputError
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.strategies.spec import StrategySpec
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
        kept, choice = record["corpus"]["samples"], record["choice"]
        found = None
        if choice["best"] is not None:
            basis = ResolvedSettings(**parts(ResolvedSettings).json(record["basis"]))
            strategy = StrategySpec.parse(choice["best"])
            request = strategy.request(basis)
            # A batch size that the strategy does not use is none of its settings.
            size = None if request.sets("batch_size") else request.params.get("batch_size")
            values = {each.name: getattr(basis, each.name) for each in fields(Settings)}
            StrategySpec.parse(choice["current"]).request(basis)
            hint = LearningRateHint(float(record["learning_rate"]["batch_ratio"]))
            found = Recommendation(
                strategy,
                Settings(**values | {"batch_size": size}),
                Origin(shown, choice["current"], hint),
                choice["argument"] or "",
            )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{shown} cannot be used ({one_line(error)}): {_REMEDY}") from None
    if found is None:
        raise InputError(
            f"{shown} recommends no strategy, as each exceeds the budget or loses too much: "
            f"{_REMEDY}"
        )
    if kept != len(profile):
        raise InputError(
            f"{shown} covers only the {kept:,} samples that the trainer keeps; a recipe trains on "
            f"all {len(profile):,}: pass a corpus with only those samples, or name a strategy with "
            "--strategy"
        )
    return found


def _is_of(record: Any, profile: Profile) -> bool:
    """Return whether a comparison has the corpus and the tokenizer of a profile."""
    own = of_corpus(profile)
    # A comparison may be of fewer samples than its profile has.
    corpora = [{**each["corpus"], "samples": None} for each in (record, own)]
    return corpora[0] == corpora[1] and bool(record["tokenizer"] == own["tokenizer"])
