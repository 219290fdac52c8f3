"""Limits held against the numbers of a report: what is kept, by how much, and what would help."""

from batchstat.gate.baseline import DEFAULT_FILE, Baseline, load_baselines, save_baselines
from batchstat.gate.judging import Check, Outcome, Status, judge, worst
from batchstat.gate.limits import NAMED, Limit, read_limits
from batchstat.gate.remedies import Failing, Remedy, find_remedy

__all__ = [
    "DEFAULT_FILE",
    "NAMED",
    "Baseline",
    "Check",
    "Failing",
    "Limit",
    "Outcome",
    "Remedy",
    "Status",
    "find_remedy",
    "judge",
    "load_baselines",
    "read_limits",
    "save_baselines",
    "worst",
]
