"""`KnownKeys`: the keys in keys.json of a trainer's folder, which decide nothing but for those that
are fields of its record. The file is written by tests/trainers/record_keys.py.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KEYS_FILE = "keys.json"


@dataclass(frozen=True)
class KnownKeys:
    """The keys of a trainer's configuration.

    Attributes:
        package: the trainer, as it is installed.
        version: the version whose keys and whose rules these are.
        keys: the keys that it has.
        also: those of earlier versions, and of the command that starts it.
    """

    package: str
    version: str
    keys: frozenset[str]
    also: frozenset[str]


@cache
def known_keys(file: Path) -> KnownKeys:
    """Return the keys of a file, which is read once, and only where a configuration is."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return KnownKeys(
        package=content["package"],
        version=content["version"],
        keys=frozenset(content["keys"]),
        also=frozenset(content["also"]),
    )
