"""Tables of examples and grids of parameters, in as few cases as say the same."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest


def in_turn(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each row of a table of examples, in one case: for rows that are quick and
    leave nothing behind. Each is a subtest, which fails by itself. Arguments as of `parametrize`.

    A case takes pytest some milliseconds whatever it does: thousands of them take half a minute.
    """
    columns = tuple(map(str.strip, names.split(","))) if isinstance(names, str) else names
    table = [row if len(columns) > 1 else (row,) for row in rows]

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def every_row(subtests: pytest.Subtests, **fixtures: Any) -> None:
            folder: Path | None = fixtures.get("tmp_path")
            for place, row in enumerate(table):
                if folder is not None:  # a row finds no files of the one before
                    fixtures["tmp_path"] = folder / str(place)
                    fixtures["tmp_path"].mkdir()
                with subtests.test(**dict(zip(columns, row, strict=True))):
                    test(**fixtures, **dict(zip(columns, row, strict=True)))

        parameters = inspect.signature(test).parameters
        fixtures = [each for name, each in parameters.items() if name not in columns]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        every_row.__signature__ = inspect.Signature([subtests, *fixtures])  # type: ignore[attr-defined]
        return every_row

    return decorated


def in_pairs(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by a part of a grid that has every pair of values of two parameters."""
    return pytest.mark.parametrize(tuple(axes), pairs_of(list(product(*axes.values()))))


def pairs_of(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a grid, in its sequence, that a greedy search takes until they have every pair of
    values of two columns that is in the grid.
    """
    # By their texts, as not all values can be hashed.
    columns = [[*map(repr, column)] for column in zip(*rows, strict=True)]
    pairs = [
        {(i, j, columns[i][place], columns[j][place]) for i, j in combinations(range(len(row)), 2)}
        for place, row in enumerate(rows)
    ]
    missing, chosen = set().union(*pairs), []
    while missing:
        chosen.append(max(range(len(rows)), key=lambda place: len(pairs[place] & missing)))
        missing -= pairs[chosen[-1]]
    return [rows[place] for place in sorted(chosen)]
