"""The recommendation of the comparison in the results folder, for the commands that use it."""

from dataclasses import fields
from pathlib import Path

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


def find_recommendation(
    folder: Path, profile: Profile
) -> tuple[StrategySpec, Settings, Origin, str] | None:
    """Return what the comparison in a results folder recommends: a strategy, its settings, where it
    is from, and the argument for the user's own trainer that does the same, if there is one. None
    without a comparison, or if it is of another profile. Raises InputError: it cannot be read, has
    another schema, has no best strategy, or covers only a part of the samples.
    """
    path = folder / COMPARE_FILE
    shown = path.as_posix()
    try:
        check_regular(path)
        record = parse(read_bytes(path))
        require_schema(record, CompareFile.number)
        of_profile = of_corpus(profile)
        # A comparison may be of fewer samples than its profile has: a trainer leaves some out.
        compared, profiled = ({**each["corpus"], "samples": None} for each in (record, of_profile))
        if compared != profiled or record["tokenizer"] != of_profile["tokenizer"]:
            return None
        compared_samples, choice = record["corpus"]["samples"], record["choice"]
        if choice["best"] is None:
            raise InputError(
                f"{shown} recommends no strategy, as each exceeds the budget or loses too much",
                _REMEDY,
            )
        best, current, is_run = choice["best"], choice["current"], record["run"] is not None
        # Those of the epoch that was recorded, as they were or regrouped.
        if is_run and (best == current or str(best).endswith(f"of={current}")):
            raise InputError(f"{shown} recommends {best}, which no recipe makes", _REMEDY)
        basis = ResolvedSettings(**parts(ResolvedSettings).json(record["basis"]))
        strategy = StrategySpec.parse(best)
        request = strategy.request(basis)
        settings = {each.name: getattr(basis, each.name) for each in fields(Settings)}
        # Only a batch size that the strategy takes from the settings belongs to these.
        settings["batch_size"] = request.shared_batch_size
        # A recipe prints its name, which is a strategy's or that of the program that was recorded.
        if not is_run:
            StrategySpec.parse(current).request(basis)
        hint = LearningRateHint(float(record["learning_rate"]["batch_ratio"]))
        origin = Origin(shown, current, hint, is_run)
        argument = choice["argument"] or ""
        recommendation = (strategy, Settings(**settings), origin, argument)
    except FileNotFoundError:
        return None
    # The file may hold anything: reading it above raises one of these.
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{shown} cannot be used ({one_line(error)})", _REMEDY) from None
    if compared_samples != len(profile):
        raise InputError(
            f"{shown} covers only the {compared_samples:,} samples that the trainer keeps; a "
            f"recipe trains on all {len(profile):,}",
            "pass a corpus with only those samples, or name a strategy with --strategy",
        )
    return recommendation
