"""Baselines: the numbers of a check as they were, in a small file for the repository."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchstat.errors import InputError
from batchstat.gate.quantities import Number

SCHEMA = "batchstat.baseline/1"
_MOST = 1e18

DEFAULT_FILE = Path("batchstat-baseline.json")


@dataclass(frozen=True)
class Baseline:
    """One check as it was.

    Attributes:
        tokenizer: its name, digest and stated maximum; empty where the corpus was counted already.
        settings: how the corpus was read and batched, as far as numbers depend on it.
        numbers: by their paths in the report.
    """

    tokenizer: Mapping[str, Any]
    settings: Mapping[str, Any]
    numbers: Mapping[str, Number]

    def difference(self, now: "Baseline") -> str | None:
        """What makes the numbers incomparable with those of `now`; None where nothing does."""
        if _what_counts(self) != _what_counts(now):
            names = [each.tokenizer.get("name", "none") for each in (self, now)]
            same_name = " of another definition" if names[0] == names[1] else ""
            return f"tokenizer {names[0]!r} then, {names[1]!r}{same_name} now"
        for key in (*self.settings, *(key for key in now.settings if key not in self.settings)):
            before, after = (each.settings.get(key) for each in (self, now))
            if before != after:
                return f"{key} {json.dumps(before)} then, {json.dumps(after)} now"
        return None


def _what_counts(baseline: Baseline) -> tuple[Any, Any]:
    return baseline.tokenizer.get("digest"), baseline.tokenizer.get("max_length")


def save_baselines(baselines: Mapping[str, Baseline]) -> str:
    """Baselines by the names of their checks, as the text of their file: the same for the same."""
    checks = {name: asdict(baseline) for name, baseline in baselines.items()}
    record = {"schema": SCHEMA, "checks": checks}
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_baselines(path: Path) -> dict[str, Baseline]:
    """The baselines of a file by the names of their checks.

    Raises:
        InputError: there is none, it is damaged, or it is of another schema.
    """
    shown = path.as_posix()
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema"] != SCHEMA:
            raise InputError(
                f"{shown} is not comparable: schema {record['schema']!r}, and this batchstat's is "
                f"{SCHEMA!r}: run batchstat baseline save"
            )
        return {name: _checked(each) for name, each in record["checks"].items()}
    except FileNotFoundError:
        raise InputError(f"no baseline {shown}: run batchstat baseline save") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{shown} is no baseline ({error}): run batchstat baseline save") from None


def _checked(record: Mapping[str, Any]) -> Baseline:
    for path, value in record["numbers"].items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
            raise TypeError(f"{path} is no number of a report")
    return Baseline(dict(record["tokenizer"]), dict(record["settings"]), dict(record["numbers"]))
