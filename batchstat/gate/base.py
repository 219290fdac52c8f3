"""Bases: the numbers of a check at an earlier time, that it is compared with."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from batchstat.documents.check import CheckFile, Since
from batchstat.errors import InputError, MissingError, OptionError
from batchstat.gate.paths import value_at
from batchstat.gate.quantities import Number
from batchstat.storage.addresses import check_regular, read_bytes, unreadable
from batchstat.storage.sealed_records import fault_of, parse, plain, require_schema
from batchstat.words import counted, short

_MOST_FILES = 3  # changed files that are named, those of the most tokens first


@dataclass(frozen=True)
class Base:
    """A check at an earlier time."""

    name: str
    check: Mapping[str, Any] | None  # the check as check.json has it, with its report
    version: str = ""
    why: str = ""  # why that time had no answer; empty if it had one
    is_new: bool = False

    def number(self, path: str) -> Number | None:
        """Return the number at a path of the report, or None. Raises InputError for others."""
        if self.check is None:
            return None
        with _as_written(self.name):
            try:
                value = value_at(self.check["report"], path)
            except InputError:  # such as the share of a class that did not occur
                return None
            if type(value) not in (int, float) or not isfinite(value):
                raise TypeError(f"{path} is {short(value)}")
            return value

    def since(self, strategy: str, report: Mapping[str, Any], version: str) -> Since:
        """Return what has changed since a time with an answer. Raises InputError: a broken base."""
        if self.check is None:
            return Since(self.name, ())
        before, report = self.check["report"], plain(report)  # as JSON has it: no tuples
        with _as_written(self.name):
            pairs = {"batchstat": (self.version, version)}
            pairs["current"] = (self.check["strategy"], strategy)
            changes = [_changed(key, *pair) for key, pair in pairs.items() if pair[0] != pair[1]]
            changes += _changed_tokenizer(before["tokenizer"], report["tokenizer"])
            # None where lengths were given.
            options = [each["corpus"]["options"] or {} for each in (before, report)]
            changes += _changed_keys(*options)
            changes += _changed_files(before, report)
            # After the files: settings that nobody gave, such as max_length, follow from them.
            changes += _changed_keys(before["basis"], report["basis"])
            if before["calibration"] != report["calibration"]:
                changes.append("another calibration")
            return Since(self.name, tuple(changes))


def load_base(path: Path, check_name: str) -> Base:
    """Return a check of a file of --format json=FILE. Raises InputError: no file, or no answer."""
    shown = path.as_posix()
    try:
        check_regular(path)
        base = base_in(read_bytes(path), check_name, shown)
    except OSError as error:
        raise unreadable(shown, error, _REMEDY) from None
    if base.check is None:
        raise InputError(f"{shown} has no answer for check {check_name!r}", _REMEDY)
    return base


def base_in(text: str | bytes, check_name: str, name: str) -> Base:
    """Return the check with this name of a check.json. Raises InputError where it is not there."""
    try:
        document = parse(text)
        require_schema(document, CheckFile.number)
    except ValueError as error:
        raise InputError(f"{name} {fault_of(error, 'a report of a check')}", _REMEDY) from None
    with _as_written(name):
        checks = {check["name"]: check for check in document["checks"]}
        version = document["tool"]["version"]
        if check_name not in checks:
            names = ", ".join(map(short, checks))
            raise InputError(f"{name} has no check {check_name!r} (has: {names})", _REMEDY)
        check = checks[check_name]
        if check["report"]:
            return Base(name, check, version)
        found = check["error"]
        why = str(InputError(found["message"], found["remedy"]))
        # The check was not there yet, or its files were not.
        is_new = found["id"] in (MissingError.id, OptionError.id)
        return Base(name, None, version, why, is_new=is_new)


_REMEDY = "write it with batchstat check --format json=FILE"


@contextmanager
def _as_written(name: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(f"{name} is not a report of a check ({error!r})", _REMEDY) from None


def _changed(key: str, before: object, now: object) -> str:
    return f"{key} {_written(before)} → {_written(now)}"


def _written(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return short(text).strip("'\"") or "none"


def _changed_keys(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in {**before, **now}:  # the keys of both, each once
        # given_batch_size only repeats another one.
        if key != "given_batch_size" and before.get(key) != now.get(key):
            yield _changed(key, before.get(key), now.get(key))


def _changed_tokenizer(before: Any, now: Any) -> Iterator[str]:
    """Yield how the tokenizer changed, if in any way that changes counts: its name does not."""
    identities = [each and (each["digest"], each["max_length"]) for each in (before, now)]
    if identities[0] == identities[1]:
        return
    names = [each and each["name"] for each in (before, now)]
    if names[0] == names[1]:
        yield f"another definition of tokenizer {_written(names[0])}"
    else:
        yield _changed("tokenizer", *names)


def _changed_files(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each of the files that changed most, and how many others did."""
    files_before, files_now = (
        {source["path"]: source for source in report["corpus"]["sources"]}
        for report in (before, now)
    )
    usual = before["lengths"]["mean"]
    # Files that were moved: as many of a content as are gone from one path and new at another.
    gone, new = (
        Counter(files[path]["digest"] for path in files.keys() - others.keys())
        for files, others in ((files_before, files_now), (files_now, files_before))
    )
    moved = [gone & new, gone & new]
    sentences: list[tuple[int, str]] = []  # each with the tokens that changed
    for path in {**files_before, **files_now}:
        then, file = files_before.get(path), files_now.get(path)
        if then is None or file is None:
            one, left = then or file or {}, moved[then is None]
            if left[one["digest"]]:
                left[one["digest"]] -= 1
                continue
        if then is None or file is None or then["digest"] != file["digest"]:
            sentences.append(_changed_file(short(path).strip("'"), then, file, usual))
    sentences.sort(key=lambda each: -each[0])
    yield from (sentence for _, sentence in sentences[:_MOST_FILES])
    if len(sentences) > _MOST_FILES:
        yield counted(len(sentences) - _MOST_FILES, "other file")


def _changed_file(path: str, then: Any, now: Any, usual: float) -> tuple[int, str]:
    """Return by how many tokens a file has changed, and how, in words."""
    known = [each for each in (then, now) if each is not None]
    if any(each["samples"] is None for each in known):  # a recording: its batches changed
        return 0, f"other data in {path}"
    # At least one sample, as a file may have none that was counted.
    means = [each["tokens"] / max(each["samples"], 1) for each in known]
    if len(known) == 1:
        [file], [mean] = known, means
        kind = "longer " if mean > usual else "shorter " if mean < usual else ""
        samples = counted(file["samples"], f"{kind}sample")
        place = "in" if now is not None else "no longer in"
        lengths = f"{mean:,.1f} tokens on average, {usual:,.1f} before"
        return file["tokens"], f"{samples} {place} {path} ({lengths})"
    more = now["samples"] - then["samples"]
    samples = "as many samples"
    if more:
        samples = f"{abs(more):,} {'more' if more > 0 else 'fewer'} sample{'s' * (abs(more) != 1)}"
    lengths = f"{means[0]:,.1f} → {means[1]:,.1f} tokens on average"
    return abs(now["tokens"] - then["tokens"]), f"{samples} in {path} ({lengths})"
