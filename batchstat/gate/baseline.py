"""Baselines: the numbers of checks at an earlier time, in a small file for the repository."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchstat.errors import InputError
from batchstat.gate.paths import numbers, value_at
from batchstat.gate.quantities import Number
from batchstat.storage.addresses import check_regular, read_bytes
from batchstat.storage.sealed_records import (
    OtherSchemaError,
    decoded,
    parse,
    require_schema,
    seal,
    unseal,
)
from batchstat.storage.shown import one_line

SCHEMA = "batchstat.baseline/4"

DEFAULT_FILE = Path("batchstat-baseline.json")
DEFAULT_NAME = "default"
"""The name of a check that has none of its own."""

_STORED = ("corpus.samples", "corpus.unreadable", "lengths.", "strategy.", "class_ratio")
"""Beginnings of the paths of numbers that are stored whether a limit is on them or not."""


@dataclass(frozen=True)
class Baseline:
    """The stored numbers of one check.

    Attributes:
        tokenizer: its name, digest and stated maximum; empty if the corpus was already counted.
        settings: how the corpus was read and batched, as far as numbers depend on it.
        numbers: numbers by their paths in the report.
    """

    tokenizer: Mapping[str, Any]
    settings: Mapping[str, Any]
    numbers: Mapping[str, Number]

    @classmethod
    def of(
        cls, report: Mapping[str, Any], settings: Mapping[str, Any], limited: Iterable[str]
    ) -> "Baseline":
        """Return the baseline of a report: the numbers that a later check may be compared with.

        Args:
            report: as in `check.json`.
            settings: how the corpus was read and batched.
            limited: the paths of the numbers that have limits, which are stored too.
        """
        tokenizer: dict[str, Any] = {}
        if report["tokenizer"] is not None:
            tokenizer = {key: report["tokenizer"][key] for key in ("name", "digest", "max_length")}
        # A path with `[` leads into a list, whose elements differ from corpus to corpus.
        paths = [path for path, _ in numbers() if "[" not in path and path.startswith(_STORED)]
        stored = {}
        for path in dict.fromkeys([*paths, *limited]):  # each path once
            try:
                stored[path] = value_at(report, path)
            except InputError:
                continue  # such as the ratio of classes in a corpus without labels
        # Without settings that are not set, and as JSON would return them: a tuple is a list there.
        settings_as_read = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in settings.items()
            if value is not None
        }
        return cls(tokenizer, settings_as_read, stored)

    def difference(self, now: "Baseline") -> str | None:
        """Return why the stored numbers are not comparable with those of `now`: the first setting
        that differs, as in "seed 0 then, 1 now". None if they are comparable.
        """
        if _tokenizer_identity(self) != _tokenizer_identity(now):
            before, after = (baseline.tokenizer.get("name", "none") for baseline in (self, now))
            same_name = " with another definition" if before == after else ""
            return f"tokenizer {before!r} then, {after!r}{same_name} now"
        for key in {**self.settings, **now.settings}:  # the settings of both, each once
            before, after = self.settings.get(key), now.settings.get(key)
            if before != after:
                return f"{key} {json.dumps(before)} then, {json.dumps(after)} now"
        return None


def _tokenizer_identity(baseline: Baseline) -> tuple[Any, Any]:
    """Return all of a tokenizer that changes numbers: its name does not."""
    return baseline.tokenizer.get("digest"), baseline.tokenizer.get("max_length")


def save_baselines(baselines: Mapping[str, Baseline]) -> str:
    """Return the text of a baseline file; the same baselines give the same text."""
    # Each check has its own digest, so that version control can merge changes to two checks.
    checks = {name: seal(asdict(baseline), name) for name, baseline in baselines.items()}
    record = {"schema": SCHEMA, "checks": checks}
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True)
class _File:
    schema: str
    checks: Mapping[str, Any]


def load_baselines(path: Path) -> dict[str, Baseline]:
    """Return the baselines of a file by the names of their checks.

    Raises:
        InputError: there is no such file, it is damaged or edited, or it has another schema.
    """
    shown = path.as_posix()
    try:
        check_regular(path)
        record = parse(read_bytes(path))
        require_schema(record, SCHEMA)
        file: _File = decoded(_File, record)
        return {
            # Each is sealed by a digest: one that was edited or damaged raises ValueError.
            name: decoded(Baseline, unseal(sealed, about=name), f"checks.{name}")
            for name, sealed in file.checks.items()
        }
    except FileNotFoundError:
        raise InputError(f"no baseline {shown}: run batchstat baseline save") from None
    except OtherSchemaError as error:
        raise InputError(f"{shown} is not comparable: it {error}: {_REMEDY}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown} is not a baseline ({one_line(error)}): {_REMEDY}") from None


def load_baseline(path: Path, name: str) -> Baseline:
    """Return the baseline of a check. Raises InputError as `load_baselines`, or if it has none."""
    baselines = load_baselines(path)
    if name not in baselines:
        raise InputError(
            f"{path.as_posix()} has no check {name!r} (has: {', '.join(baselines)}): name one of "
            "them with --check, or run batchstat baseline save"
        )
    return baselines[name]


_REMEDY = "run batchstat baseline save"
