"""What several of the JSON files hold."""

import json
from dataclasses import asdict
from typing import Any

from batchstat._version import __version__
from batchstat.errors import without_commands
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts


def to_text(record: dict[str, Any]) -> str:
    """The JSON text of a file, and of `--json`."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    return without_commands(f"{text}\n")


def head(schema: str, created: str) -> dict[str, Any]:
    """What every file begins with."""
    return {
        "schema": schema,
        "tool": {"name": "batchstat", "version": __version__},
        "created": created,
    }


def corpus_json(corpus: CorpusFacts | None, samples: int) -> dict[str, Any]:
    """Which corpus; None where lengths were given."""
    if corpus is None:
        return {
            "sources": [],
            "samples": samples,
            "skipped": {},
            "unreadable": 0,
            "faults": [],
            "failed": [],
            "left_out": {},
            "options": None,
        }
    return {
        "sources": [asdict(source) for source in corpus.sources],
        "samples": samples,
        "skipped": dict(corpus.skipped),
        "unreadable": corpus.unreadable,
        "faults": list(corpus.faults),
        "failed": list(corpus.failed),
        "left_out": dict(corpus.left_out),
        "options": asdict(corpus.options),
    }


def tokenizer_json(tokenizer: TokenizerFacts | None) -> dict[str, Any] | None:
    """Which tokenizer."""
    return None if tokenizer is None else asdict(tokenizer)
