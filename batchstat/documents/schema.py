"""The JSON Schemas of what batchstat writes, as the documents declare it."""

from functools import cache
from typing import Any

from batchstat.documents.balance import BalanceFile
from batchstat.documents.base import File
from batchstat.documents.buckets import BucketsFile
from batchstat.documents.check import CheckFile
from batchstat.documents.comparison import CompareFile
from batchstat.documents.parts import Part, parts
from batchstat.documents.preflight import PreflightFile
from batchstat.documents.profile import ProfileFile

FILES: dict[str, type[File]] = {
    "profile": ProfileFile,
    "compare": CompareFile,
    "buckets": BucketsFile,
    "balance": BalanceFile,
    "check": CheckFile,
    "preflight": PreflightFile,
}


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a file such as `profile.json`, by the word before the dot."""
    document = FILES[name]
    found = schema_of(parts(document))
    found["properties"]["schema"]["const"] = document.number
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{name}.json",
        **found,
    }


def schema_of(part: Part) -> dict[str, Any]:
    """Return the schema of a part in its place."""
    made = _schema_of_kind(part)
    if part.is_nullable:
        made = {"anyOf": [made, {"type": "null"}]}
    if part.told:
        made["description"] = part.told
    if not part.is_required:
        made["default"] = part.default
    return dict(sorted(made.items()))


def _schema_of_kind(part: Part) -> dict[str, Any]:
    """Return the schema of whatever is of a part's kind, wherever it stands."""
    made = dict(part.allowed)
    if "enum" in made:
        made["enum"] = list(made["enum"])
    if part.type is not None:
        made["type"] = part.type
    if part.text:
        made["description"] = part.text
    if part.keys:
        made["properties"] = {name: schema_of(each) for name, each in part.keys.items()}
        required = [name for name, each in part.keys.items() if each.is_required]
        made |= {"required": required} if required else {"additionalProperties": False}
    elif part.items is not None:
        below = schema_of(part.items)
        made["items" if part.type == "array" else "additionalProperties"] = below or True
    return dict(sorted(made.items()))
