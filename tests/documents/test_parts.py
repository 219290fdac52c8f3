"""What records declare is what documents have."""

from types import SimpleNamespace
from typing import Annotated

import pytest

from batchstat.documents.base import Document
from batchstat.documents.parts import parts
from batchstat.documents.profile import Skipped
from batchstat.documents.schema import schema_of
from batchstat.parameters import described
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.records import SAME, Count, Ratio, Record, allowed, told, told_of, untold


@described("A record.")
class Row(Record):
    name: str
    long: Count = told("Long ones.", key="long_ones")
    all: Count = untold()

    @property
    @told_of("Their share.")
    def share(self) -> Ratio:
        return self.long / self.all


@described("A part.")
class Least(Document):
    least: Count = told(of="deep.least")


@described("A document.")
class Table(Document):
    rows: Annotated[list[Row], allowed(minItems=1)]
    best: Row | None = told("The best; null for none.")
    least: Least = told(of=SAME)


def test_a_document_takes_its_keys_from_records():
    source = SimpleNamespace(rows=(Row("a", 1, 2),), best=None, deep=SimpleNamespace(least=3))
    assert Table.of({"best": Row("b", 2, 2)}, source) == {
        "rows": [{"name": "a", "long_ones": 1, "share": 0.5}],
        "best": {"name": "b", "long_ones": 2, "share": 1.0},
        "least": {"least": 3},
    }


def test_what_a_document_has_is_declared_once():
    found = schema_of(parts(Table))
    assert list(found["properties"]) == found["required"] == ["rows", "best", "least"]
    row = found["properties"]["rows"]["items"]["properties"]
    assert row["share"] == {
        "description": "Their share.",
        "maximum": 1,
        "minimum": 0,
        "type": "number",
        "x-unit": "ratio",
    }
    assert found["properties"]["rows"]["minItems"] == 1
    best = found["properties"]["best"]
    assert best["description"] == "The best; null for none."
    assert [each.get("description") for each in best["anyOf"]] == ["A record.", None]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Row("a", -1, 2), "long=-1: minimum is 0"),
        (Row("a", 3, 2), "share=1.5: maximum is 1"),
        (Row("a", None, 2), "long is None"),  # type: ignore[arg-type]
        ({"name": "a", "long_ones": 1}, "no source has share"),
    ],
)
def test_no_document_states_what_cannot_be(row, message):
    with pytest.raises(ValueError, match=message):
        Table.of({"rows": [row], "best": None, "least": {"least": 0}})


def test_a_reason_that_nobody_declared_is_refused():
    assert Skipped.of({"blank": 2}) == {"blank": 2}
    with pytest.raises(ValueError, match="not declared: odd"):
        Skipped.of({"odd": 1})


def test_a_basis_has_the_settings():
    made = parts(ResolvedSettings).json(Settings(seed=3).resolve(longest=9, stated_max=None))
    assert list(made) == [*parts(Settings).keys, "given_batch_size"]
    assert (made["seed"], made["max_length"], made["keep_labels"]) == (3, 9, [])
    assert parts(ResolvedSettings).keys["overflow"].allowed["enum"] == ("truncate", "drop", "split")
    assert parts(ResolvedSettings).keys["seed"].allowed == {"minimum": 0}
