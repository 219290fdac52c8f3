"""One self-contained HTML file: text and tables, the data of charts, and the scripts that draw. Its
data is JSON that cannot end its script, cut to what a page has room for.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from batchstat._version import __version__
from batchstat.findings import Finding
from batchstat.lengths.stats import LengthStats
from batchstat.render.html.blocks import Block
from batchstat.render.html.what_if import WhatIf
from batchstat.words import counted

MOST_ENTRIES = 200  # entries of a list that a page holds
_MOST_CHARACTERS = 2_000  # characters of a text that a page holds
_MOST_ENCODED = 200_000  # characters of a histogram that a page holds

_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}
"""HTML takes the first three for markup, and older JavaScript the last two for line ends."""


def script_json(document: Any) -> str:
    """Return JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def shortened(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a document with `MOST_ENTRIES` per list, and how many each lacks, by its path."""
    missing: dict[str, int] = {}
    return _shortened(document, "", missing), missing


def _shortened(value: Any, path: str, missing: dict[str, int]) -> Any:
    """Return a value, shortened; `missing` gets the number left out under its path."""
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return f"{value[:_MOST_CHARACTERS]}…"
    if not isinstance(value, dict | list):
        return value
    if len(value) > MOST_ENTRIES:
        missing[path] = len(value) - MOST_ENTRIES
    if isinstance(value, dict):
        return {
            key: _shortened(item, f"{path}.{key}" if path else key, missing)
            for key, item in islice(value.items(), MOST_ENTRIES)
        }
    return [_shortened(item, path, missing) for item in _entries_to_keep(value)]


def _entries_to_keep(entries: list[Any]) -> list[Any]:
    """Return the first `MOST_ENTRIES` of a list; of classes the largest, in their order."""
    # Only classes have a label and a size: the `before` of a limit is null without a base.
    keys = entries[0] if entries and isinstance(entries[0], dict) else ()
    is_class = "label" in keys
    size_key = next((key for key in ("before", "count") if is_class and key in keys), None)
    if size_key is None or len(entries) <= MOST_ENTRIES:
        return entries[:MOST_ENTRIES]
    # Sorting is stable, so that lists of the same classes keep the same ones where sizes are equal.
    largest_first = sorted(range(len(entries)), key=lambda i: -entries[i][size_key])
    return [entries[i] for i in sorted(largest_first[:MOST_ENTRIES])]


def histogram(stats: LengthStats) -> dict[str, Any]:
    """Encode the lengths of a corpus for the page's script: the distinct lengths in ascending
    order, as differences to the one before, and how often each occurs. `data` is bytes in planes,
    since these compress better than whole numbers: byte 0 of all differences, then byte 1 of all,
    and so on, then those of the counts; compressed by zlib, in base64. `values` and `counts` are
    how many bytes, at most 8, a difference and a count have.
    """
    columns = {"values": np.diff(stats.values, prepend=0), "counts": stats.counts}
    planes, bytes_per_number = [], {}
    for name, numbers in columns.items():
        # As many bytes as the largest number needs; 1 if it is 0, or if there is no number.
        bits = int(numbers.max(initial=0)).bit_length()
        bytes_per_number[name] = max(1, (bits + 7) // 8)
        # An array of shape (n, 8): the bytes of each number, the lowest first.
        number_bytes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
        # A plane is one column of it: the same byte of all numbers.
        planes += [number_bytes[:, plane].tobytes() for plane in range(bytes_per_number[name])]
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode("ascii")
    return {**bytes_per_number, "data": data}


STYLES = ("page.css", "charts.css", "panel.css")
SCRIPTS = (
    *("d3.js", "plot.js", "charts.js", "charts-corpus.js"),
    *("panel.js", "other.js", "page.js"),
)
"""Assets in the order in which a page has them; each script defines one name for those below."""

NOTICE = "D3-LICENSE"  # licences of what d3.js bundles, which every page repeats


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading."""

    name: str
    title: str
    blocks: tuple[Block, ...]  # what it says


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page says."""

    command: str
    subject: str
    facts: tuple[tuple[str, str], ...]  # lines below the title
    sections: tuple[Section, ...]  # the parts
    document: dict[str, Any]  # the published document
    profile: dict[str, Any] | None = None  # profile.json of the corpus, if it is another document
    lengths: LengthStats | None = None  # statistics of the whole lengths of the corpus
    what_if: WhatIf | None = None  # what the what-if panel shows; None for a page without one
    warnings: tuple[Finding, ...] = ()  # what to know about the numbers

    def html(self) -> str:
        """Return the HTML file: the template with text, tables, scripts and data."""
        document, entries_missing = shortened(self.document)
        data = {"document": document}
        if self.profile is not None:
            data["profile"], _ = shortened(self.profile)
        if self.lengths is not None:
            exact_lengths = histogram(self.lengths)
            # Without exact lengths, the page draws the coarser histogram of the document.
            if len(exact_lengths["data"]) <= _MOST_ENCODED:
                data["lengths"] = exact_lengths
        if self.what_if is not None:
            data["what-if"] = dict(self.what_if.data)
        styles, scripts = "".join(map(asset, STYLES)), [asset(name) for name in SCRIPTS]
        # A browser loads nothing from elsewhere, and runs only these, which it knows by hashes.
        runs = f"script-src {' '.join(map(_digest, scripts))}; style-src {_digest(styles)}"
        policy = f"default-src 'none'; {runs}; img-src data:; base-uri 'none'; form-action 'none'"
        template = _environment().get_template("page.html.jinja")
        return template.render(
            page=self,
            data={name: script_json(value) for name, value in data.items()},
            missing=_missing_sentence(entries_missing),
            styles=styles,
            scripts=scripts,
            policy=policy,
            # The notice stands in an HTML comment, which `-->` would end.
            notice=asset(NOTICE).replace("--", "-\u200b-"),
            version=__version__,
        )


@cache
def asset(name: str) -> str:
    """Return the text of an asset."""
    return (files("batchstat.render.html") / "assets" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    """Return jinja's environment, which escapes text and fails on undefined names."""
    return Environment(
        loader=PackageLoader("batchstat.render.html", "."),
        autoescape=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


def _digest(text: str) -> str:
    # A browser hashes the text between the tags, where the template adds no line end.
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _missing_sentence(missing: Mapping[str, int]) -> str:
    """Return what the page leaves out: `missing` entries of a list, by its path; or nothing."""
    if not missing:
        return ""
    lists = ", ".join(f"{path} {count:,}" for path, count in list(missing.items())[:4])
    more_lists = f" and {counted(len(missing) - 4, 'more list')}" if len(missing) > 4 else ""
    return (
        f"Lists in this page have {MOST_ENTRIES} entries at most, those of classes the largest. "
        f"Left out: {lists}{more_lists}."
    )
