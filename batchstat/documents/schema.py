"""The JSON Schemas of what batchstat writes, as the documents declare it."""

from functools import cache
from typing import Any

from batchstat.documents.balance import BalanceFile
from batchstat.documents.base import Document, ErrorFile, File
from batchstat.documents.buckets import BucketsFile
from batchstat.documents.check import CheckFile
from batchstat.documents.comparison import CompareFile
from batchstat.documents.parts import Part, parts
from batchstat.documents.preflight import PreflightFile
from batchstat.documents.profile import ProfileFile

FILES: dict[str, type[Document]] = {
    "profile": ProfileFile,
    "compare": CompareFile,
    "buckets": BucketsFile,
    "balance": BalanceFile,
    "check": CheckFile,
    "preflight": PreflightFile,
    "error": ErrorFile,
}


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a file; `name` is its name without `.json`, such as `profile`."""
    document = FILES[name]
    file_schema = schema_of(parts(document))
    if issubclass(document, File):
        file_schema["properties"]["schema"]["const"] = document.number
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{name}.json",
        **file_schema,
    }


def schema_of(part: Part) -> dict[str, Any]:
    """Return the schema of a part in its place: that of its kind, and what is said of it here."""
    schema = _schema_of_kind(part)
    if part.is_nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    # What it is in this place says more than what all objects of its kind are.
    if part.told:
        schema["description"] = part.told
    if not part.is_required:
        schema["default"] = part.default
    # Sorted, so that schemas of equal declarations are equal as text.
    return dict(sorted(schema.items()))


def _schema_of_kind(part: Part) -> dict[str, Any]:
    """Return the schema of a part's kind, the same wherever it stands."""
    schema = dict(part.allowed)
    if "enum" in schema:
        schema["enum"] = list(schema["enum"])
    if part.type is not None:
        schema["type"] = part.type
    if part.text:
        schema["description"] = part.text
    if part.keys:
        schema["properties"] = {key: schema_of(below) for key, below in part.keys.items()}
        required = [key for key, below in part.keys.items() if below.is_required]
        # In a closed object, to which no version may add keys, an unknown key is a mistake.
        schema |= {"additionalProperties": False} if part.is_closed else {"required": required}
    elif part.items is not None:
        # JSON Schema has the values under keys of any name as additional properties.
        keyword = "items" if part.type == "array" else "additionalProperties"
        # An empty schema allows anything; JSON Schema also writes it as true.
        schema[keyword] = schema_of(part.items) or True
    return dict(sorted(schema.items()))
