"""The verdict of a dry run: which loaders are cut, and what it was checked against."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .cutting import Cut, Width
from .loaders import is_installed

_VERSIONS = ("torch", "transformers", "accelerate", "lightning", "trl")


def environment(world_size: int) -> dict[str, Any]:
    """Return what a verdict holds for: versions, the number of ranks, and the digests of the files
    that the command imported, outside of installed packages.
    """
    modules = {name: getattr(sys.modules.get(name), "__version__", None) for name in _VERSIONS}
    versions = {name: str(version) for name, version in modules.items() if version}
    versions["python"] = "%d.%d.%d" % sys.version_info[:3]
    files = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    # Modules of torch name files that there are not.
    own = {f for f in files if isinstance(f, str) and os.path.isfile(f) and not is_installed(f)}
    return {
        "versions": versions,
        "world_size": world_size,
        "files": {file: digest_of(file) for file in sorted(map(os.path.abspath, own))},
    }


def digest_of(file: str) -> str:
    """Return a digest of a file's content; empty where it cannot be read."""
    try:
        with open(file, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""


def why_another(verdict: Mapping[str, Any], world_size: int) -> str:
    """Return what is not as it was when the dry run checked it; empty if all is."""
    known = verdict["environment"]
    if known["world_size"] != world_size:
        return "the dry run had %d ranks" % known["world_size"]
    for name, version in known["versions"].items():
        here = environment_version(name)
        if here and here != version:
            return "the dry run had %s %s" % (name, version)
    changed = [file for file, digest in known["files"].items() if digest_of(file) != digest]
    return "%s has changed since the dry run" % changed[0] if changed else ""


def environment_version(name: str) -> str:
    """Return the version of a module, or of Python, in this process; "" if it is not imported."""
    if name == "python":
        return "%d.%d.%d" % sys.version_info[:3]
    return str(getattr(sys.modules.get(name), "__version__", ""))


def to_json(cut: Cut) -> dict[str, Any]:
    """Return a cut as JSON has it."""
    return {"multiple": cut.multiple, "widths": [_width_to_json(each) for each in cut.widths]}


def _width_to_json(width: Width) -> dict[str, Any]:
    return {
        "ends": [[list(place), value] for place, value in width.ends],
        "axes": [[list(place), list(axes)] for place, axes in width.axes.items()],
        "values": [[list(place), list(values)] for place, values in width.values.items()],
        "floor": width.floor,
    }


def from_json(cut: Mapping[str, Any]) -> Cut:
    """Return a cut that `to_json` wrote."""
    widths = [
        Width(
            ends=tuple((tuple(place), value) for place, value in each["ends"]),
            axes={tuple(place): tuple(axes) for place, axes in each["axes"]},
            values={tuple(place): tuple(values) for place, values in each["values"]},
            floor=each["floor"],
        )
        for each in cut["widths"]
    ]
    return Cut(tuple(widths), cut["multiple"])


def joined(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the verdict of all ranks: one loader that all of them cut alike, or why none is."""
    reasons = [each["why_not"] for each in ranks if each["why_not"]]
    cuts = [each["cut"] for each in ranks if each["cut"] is not None]
    shapes = [[(w["ends"], w["axes"]) for w in cut["widths"]] for cut in cuts]
    if not reasons and any(each["key"] != ranks[0]["key"] for each in ranks):
        reasons = ["the ranks read loaders of different sizes"]
    if not reasons and any(each != shapes[0] for each in shapes):
        reasons = ["the ranks read batches of different arrays"]
    if reasons:
        return {**ranks[0], "why_not": reasons[0], "cut": None}
    widths = []
    for alike in zip(*(cut["widths"] for cut in cuts)):
        values = {json.dumps(place): found for place, found in alike[0]["values"]}
        for each in alike[1:]:
            for place, found in each["values"]:
                own = values[json.dumps(place)]
                own += [value for value in found if value not in own]
        floor = max(each["floor"] for each in alike)  # which all ranks have checked
        values_found = [[json.loads(place), found] for place, found in values.items()]
        widths.append({**alike[0], "values": values_found, "floor": floor})
    multiple = max(cut["multiple"] for cut in cuts)
    apart = max(each["apart"] for each in ranks)
    return {**ranks[0], "apart": apart, "cut": {"multiple": multiple, "widths": widths}}


def read(path: str) -> dict[str, Any]:
    """Return the verdict in a file. Raises OSError or ValueError."""
    with open(path, encoding="utf-8") as stream:
        verdict: dict[str, Any] = json.load(stream)
    return verdict
