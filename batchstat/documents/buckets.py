"""buckets.json."""

from dataclasses import asdict
from typing import Any

from batchstat.documents.common import corpus_json, head, tokenizer_json
from batchstat.documents.comparison import strategy_json
from batchstat.simulation.bucket_search import BucketReport, Edges

SCHEMA = "batchstat.buckets/1"


def buckets_json(report: BucketReport) -> dict[str, Any]:
    """buckets.json."""
    return {
        **head(SCHEMA, report.created),
        "corpus": corpus_json(report.corpus, report.samples),
        "tokenizer": tokenizer_json(report.tokenizer),
        "basis": asdict(report.basis),
        "cost": report.cost,
        "model": None if report.model is None else asdict(report.model),
        "least": report.least,
        "strategy": report.spec,
        "strategies": [strategy_json(row, report.model) for row in report.uses],
        "buckets": [
            {
                **asdict(each),
                "padding_tokens": each.padding_tokens,
                "total_tokens": each.total_tokens,
            }
            for each in report.buckets
        ],
        "rules": [
            {"name": rule, "points": [_edges(each) for each in every]}
            for rule, every in report.found.items()
        ],
    }


def _edges(edges: Edges) -> dict[str, Any]:
    return {
        "buckets": edges.wanted,
        "edges": list(edges.edges),
        "real_tokens": edges.real_tokens,
        "total_tokens": edges.total_tokens,
        "padding_ratio": edges.padding_ratio,
        "relative_cost": edges.cost,
    }
