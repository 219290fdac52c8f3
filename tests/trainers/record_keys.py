"""Write the keys.json of trainers from what is installed: the names of all keys that they take.

    python tests/trainers/record_keys.py batchstat/trainers/trl/keys.json

Each needs its trainer, in the version whose rules its folder has. Of a keys.json, package, version,
`classes` and `also` are written by hand: `classes` are those whose fields are the trainer's keys,
and `also` names keys of earlier versions, which people's files still have, or of the command that
starts it.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from textwrap import indent, wrap
from typing import Any


def recorded(file: Path) -> dict[str, Any]:
    """What a keys.json has to be for the version that is installed."""
    content = json.loads(file.read_text(encoding="utf-8"))
    found = {key for each in content["classes"] for key in keys_of(each)}
    return content | {"keys": sorted(found), "also": sorted(set(content["also"]) - found)}


def keys_of(name: str) -> Iterator[str]:
    """The keys that a dataclass takes, named module:class."""
    module, _, kind = name.partition(":")
    declared = getattr(import_module(module), kind)
    yield from (each.name for each in fields(declared) if each.init)


def written(content: dict[str, Any]) -> str:
    """The text of a keys.json: its lists fill lines, so that a review sees the keys that change."""
    values = (f"  {json.dumps(name)}: {_value(value)}" for name, value in content.items())
    return "{\n" + ",\n".join(values) + "\n}\n"


def _value(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    lines = "\n".join(wrap(json.dumps(value)[1:-1], 94, break_on_hyphens=False))
    return f"[\n{indent(lines, '    ')}\n  ]"


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        file.write_text(written(recorded(file)), encoding="utf-8")


if __name__ == "__main__":
    main()
