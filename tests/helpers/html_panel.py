"""The plans of a page's what-if panel, read from its file."""

import json
import re
from dataclasses import dataclass
from html import unescape
from typing import Any

_NOTE = re.compile(r'<p class="note">(.*?)</p>', re.DOTALL)
_CELL = re.compile(r"<t[hd][ >].*?</t[hd]>", re.DOTALL)


@dataclass(frozen=True)
class Panel:
    """What the panel of a page shows.

    Attributes:
        notes: the lines above it.
        choices: what is chosen to get each row, and its command.
        rows: the cells of each row, by their columns.
    """

    notes: list[str]
    choices: list[dict[str, Any]]
    rows: list[dict[str, str]]


def panel_of(page: str) -> Panel:
    """The panel of a page's HTML."""
    section = page.partition('<section id="what-if"')[2].partition("</section>")[0]
    head, _, body = section.partition("<tbody>")
    columns = _cells(head.rpartition("<thead>")[2])
    made = [dict(zip(columns, _cells(row), strict=True)) for row in body.split("<tr")[1:]]
    data = re.findall(r'id="data-what-if">(.*?)</script>', page, re.DOTALL)
    return Panel(_texts(_NOTE.findall(section)), json.loads(data[0])["choices"], made)


def check_row(cells: dict[str, str], document: dict[str, Any]) -> None:
    """The cells of a plan are those of its row of compare.json."""
    (row,) = (each for each in document["strategies"] if each["label"] == cells["strategy"])
    assert cells["ranks"] == f"{document['basis']['world_size']:,}"
    assert cells["speed-up"] == f"{row['speed_up']:.2f}x"
    assert cells["steps"] == f"{row['steps']:,}"
    assert cells["largest batch"] == f"{row['max_batch_tokens']:,}"
    shown = {"padding": row["padding_ratio"]}
    if "rank idle" in cells:
        by_time = row["rank_idle_time"]
        shown["rank idle"] = row["rank_idle"] if by_time is None else by_time
    for name, ratio in shown.items():
        assert abs(float(cells[name].strip("<>%")) - 100 * ratio) < 0.1001
    if "over budget" in cells:
        assert (cells["over budget"] or "0") == f"{row['over_budget_batches']:,}"


def _cells(html: str) -> list[str]:
    return _texts(_CELL.findall(html))


def _texts(parts: list[str]) -> list[str]:
    return [unescape(re.sub("<.*?>", "", part)).strip() for part in parts]
