"""check.json."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from batchstat.documents.common import head
from batchstat.gate.check import Check, Outcome, worst

SCHEMA = "batchstat.check/1"


def check_json(checks: Sequence[Check], created: str) -> dict[str, Any]:
    """check.json."""
    return {
        **head(SCHEMA, created),
        "status": worst(checks),
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "error": check.error,
                "strategy": check.strategy,
                "report": check.report,
                "limits": [_outcome(outcome) for outcome in check.outcomes],
                "warnings": list(check.warnings),
            }
            for check in checks
        ],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    limit = outcome.limit
    return {
        "name": limit.name,
        "path": limit.path,
        "bound": limit.bound,
        "limit": limit.threshold,
        "value": outcome.value,
        "before": outcome.before,
        "over": outcome.over,
        "level": limit.level,
        "status": outcome.status,
        "set_in": limit.origin,
        "remedy": None if outcome.remedy is None else asdict(outcome.remedy),
    }
