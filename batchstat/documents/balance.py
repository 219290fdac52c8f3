"""balance.json."""

from dataclasses import asdict
from typing import Any

from batchstat.documents.common import corpus_json, head, tokenizer_json
from batchstat.documents.comparison import strategy_json
from batchstat.simulation.balances import BalanceReport, SamplerResult

SCHEMA = "batchstat.balance/1"


def balance_json(report: BalanceReport) -> dict[str, Any]:
    """balance.json."""
    return {
        **head(SCHEMA, report.created),
        "corpus": corpus_json(report.corpus, report.samples),
        "tokenizer": tokenizer_json(report.tokenizer),
        "basis": asdict(report.basis),
        "epochs": report.epochs,
        "unlabelled_samples": report.unlabelled,
        "multilabel_samples": report.multilabel,
        "samplers": [_sampler(row, report.basis.epoch) for row in report.samplers],
        "recommended": report.recommended and report.recommended.spec,
        "warnings": [asdict(warning) for warning in report.warnings],
    }


def _sampler(row: SamplerResult, epoch: int) -> dict[str, Any]:
    lengths = row.lengths
    return {
        "name": row.name,
        "params": row.params,
        "samples": row.samples,
        "tokens": lengths.sum,
        "unique_samples": row.unique,
        "coverage": row.coverage,
        "coverage_after": row.coverage_after,
        "unseen_samples": row.unseen,
        "max_repeats": row.max_repeats,
        "class_ratio": row.class_ratio,
        "relative_compute": row.relative_compute,
        "lengths": {
            "mean": lengths.mean,
            "p50": lengths.percentile(500),
            "p90": lengths.percentile(900),
            "max": lengths.max,
        },
        "classes": [each.numbers() for each in row.classes],
        "epochs": [
            {
                "epoch": epoch + i,
                "class_ratio": row.ratios[i],
                "coverage": seen / row.corpus_samples,
                "min_class_coverage": row.least_class_coverage(i),
            }
            for i, seen in enumerate(row.seen)
        ],
        "ranks": _ranks(row),
        "strategy": strategy_json(row.row),
    }


def _ranks(row: SamplerResult) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank,
            "samples": each.samples,
            "classes": [
                {"label": of_class.label, "count": count}
                for of_class, count in zip(row.classes, each.classes, strict=True)
            ],
        }
        for rank, each in enumerate(row.row.counts.reach.ranks)
    ]
