"""profile.json."""

from dataclasses import asdict
from typing import Any

from batchstat.documents.common import corpus_json, head, tokenizer_json
from batchstat.profiling.profile import Profile

SCHEMA = "batchstat.profile/1"


def profile_json(profile: Profile) -> dict[str, Any]:
    """profile.json."""
    stats = profile.stats
    return {
        **head(SCHEMA, profile.created),
        "corpus": corpus_json(profile.corpus, len(profile)),
        "tokenizer": tokenizer_json(profile.tokenizer),
        "lengths": {
            "count": stats.count,
            "sum": stats.sum,
            "min": stats.min,
            "max": stats.max,
            "mean": stats.mean,
            "std": stats.std,
            "p50": stats.percentile(500),
            "p90": stats.percentile(900),
            "p95": stats.percentile(950),
            "p99": stats.percentile(990),
            "p99_9": stats.percentile(999),
            "histogram": asdict(profile.histogram),
        },
        "truncation": [asdict(candidate) for candidate in profile.truncation],
        "classes": [
            {
                "label": each.label,
                "count": each.count,
                "share": each.share,
                "mean_length": each.mean_length,
            }
            for each in profile.classes
        ],
        "class_ratio": profile.class_ratio,
    }
