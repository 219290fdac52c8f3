"""The JSON Schemas of what batchstat writes, as the documents declare it."""

from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from batchstat.documents.balance import SCHEMA as BALANCE
from batchstat.documents.balance import BalanceFile
from batchstat.documents.base import Document
from batchstat.documents.buckets import SCHEMA as BUCKETS
from batchstat.documents.buckets import BucketsFile
from batchstat.documents.check import SCHEMA as CHECK
from batchstat.documents.check import CheckFile
from batchstat.documents.comparison import SCHEMA as COMPARE
from batchstat.documents.comparison import CompareFile
from batchstat.documents.descriptions import descriptions
from batchstat.documents.preflight import SCHEMA as PREFLIGHT
from batchstat.documents.preflight import PreflightFile
from batchstat.documents.profile import SCHEMA as PROFILE
from batchstat.documents.profile import ProfileFile

FILES: dict[str, tuple[str, type[Document]]] = {
    "profile": (PROFILE, ProfileFile),
    "compare": (COMPARE, CompareFile),
    "buckets": (BUCKETS, BucketsFile),
    "balance": (BALANCE, BalanceFile),
    "check": (CHECK, CheckFile),
    "preflight": (PREFLIGHT, PreflightFile),
}
"""The name of each file's schema, and its document."""


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a file such as `profile.json`, by the word before the dot."""
    number, document = FILES[name]
    found = _schema_of(document)
    found["properties"]["schema"]["const"] = number
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{name}.json",
        **found,
    }


def _schema_of(document: type[Document]) -> dict[str, Any]:
    made = document.model_json_schema(mode="serialization", schema_generator=_Described)
    found: dict[str, Any] = _inlined(made, made.pop("$defs", {}))
    return found


class _Described(GenerateJsonSchema):
    """A generator of schemas whose keys have descriptions."""

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        made, document = super().model_schema(schema), schema["cls"]
        for name, text in descriptions(document).items():
            key = document.model_fields[name].serialization_alias or name
            made["properties"][key]["description"] = text
        return made


def _inlined(part: Any, definitions: dict[str, Any]) -> Any:
    """Resolve the references of a schema, and remove pydantic's titles."""
    if isinstance(part, list):
        return [_inlined(each, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        part = {**definitions[part["$ref"].rpartition("/")[2]], **part}
    return {
        key: {name: _inlined(each, definitions) for name, each in value.items()}
        if key == "properties"
        else _inlined(value, definitions)
        for key, value in part.items()
        if key != "$ref" and not (key == "title" and isinstance(value, str))
    }
