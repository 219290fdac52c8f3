"""The JSON Schemas of what batchstat writes."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a file such as `profile.json`, by the word before the dot, with what it
    refers to in others put in its place.
    """
    text = files(__package__).joinpath(f"{name}.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = _inlined(json.loads(text))
    return loaded


def report_schema() -> dict[str, Any]:
    """The JSON Schema of `report_json`."""
    check = schema("check")["properties"]["checks"]["items"]
    found: dict[str, Any] = check["properties"]["report"]["anyOf"][0]
    return found


def _inlined(part: Any) -> Any:
    if isinstance(part, list):
        return [_inlined(each) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" not in part:
        return {key: _inlined(value) for key, value in part.items()}
    file, _, path = part["$ref"].partition("#/")
    found = schema(file.removesuffix(".schema.json"))
    for key in path.split("/"):
        found = found[key]
    return found
