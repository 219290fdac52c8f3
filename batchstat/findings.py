"""Facts about a corpus or a configuration, each with a stable id, as `findings.toml` lists them."""

import tomllib
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from batchstat.errors import OptionError, did_you_mean
from batchstat.parameters import described
from batchstat.records import Record, told
from batchstat.words import worded


@dataclass(frozen=True)
class Explanation:
    """What a finding means, in sentences."""

    what: str
    why: str
    fix: str


@cache
def catalogue() -> Mapping[str, Explanation]:
    """Return the explanations of all findings, by their ids, such as `padding/over-budget`."""
    text = files("batchstat").joinpath("findings.toml").read_text(encoding="utf-8")
    return {
        f"{area}/{name}": Explanation(**explanation)
        for area, names in tomllib.loads(text).items()
        for name, explanation in names.items()
    }


@described(
    """What else to know about the numbers: a fact about a corpus or a configuration. Its `str` is
    the message, followed by the id in brackets.

    Example:
        >>> report = batchstat.compare([5, 3, 9], strategies=["static"], tokens_per_batch=8)
        >>> [finding.id for finding in report.warnings]
        ['padding/long-samples', 'padding/over-budget', 'padding/batch-of-one']
    """
)
class Finding(Record):
    id: str = told("Its stable name, which batchstat explain explains and --ignore takes.")
    message: str = told("The finding in words.")

    def __post_init__(self) -> None:
        """Word the message for its reader; raise KeyError for an id that is not catalogued."""
        catalogue()[self.id]
        # Messages name options by their flags; in Python they are arguments.
        object.__setattr__(self, "message", worded(self.message))

    def __str__(self) -> str:
        return f"{self.message} [{self.id}]"


def known_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return ids of findings as they are. Raises OptionError for one that does not exist."""
    known = tuple(ids)
    for each in known:
        if each not in catalogue():
            # All ids would fill a screen.
            suggestion = did_you_mean(each, catalogue()) or "batchstat explain names all of them"
            raise OptionError(f"unknown finding {each!r}", suggestion)
    return known


def without_ignored(findings: Iterable[Finding], ignored: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings whose ids are not ignored."""
    return tuple(finding for finding in findings if finding.id not in ignored)


def warn_in_python(finding: Finding) -> None:
    """Give a finding to the `warnings` of Python."""
    warnings.warn(str(finding), stacklevel=3)
