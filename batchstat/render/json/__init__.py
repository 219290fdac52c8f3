"""Records as JSON: the contract that other programs rely on, versioned in `schema`."""

from batchstat.render.json.balance import balance_json
from batchstat.render.json.buckets import buckets_json
from batchstat.render.json.check import check_json
from batchstat.render.json.comparison import comparison_json, report_json, simulation_json
from batchstat.render.json.parts import to_text
from batchstat.render.json.profile import profile_json

__all__ = [
    "balance_json",
    "buckets_json",
    "check_json",
    "comparison_json",
    "profile_json",
    "report_json",
    "simulation_json",
    "to_text",
]
