"""Keys of JSON that others read: none is renamed or removed without another schema number."""

from collections.abc import Iterator
from pathlib import Path

from batchstat.documents.parts import Part, parts
from batchstat.documents.schema import FILES

KEYS = Path(__file__).parent / "keys.txt"


def key_paths(part: Part, path: str = "") -> Iterator[str]:
    """The paths of all keys below a part, such as `strategies[].padding_ratio`."""
    for key, below in part.keys.items():
        yield f"{path}{key}"
        yield from key_paths(below, f"{path}{key}.")
    if part.items is not None:
        brackets = "[]" if part.type == "array" else "{}"
        yield from key_paths(part.items, f"{path.removesuffix('.')}{brackets}.")


def number_of(name: str) -> str:
    """That of its schema; the JSON of an error has none, and stays as it is."""
    return getattr(FILES[name], "number", name)


def listed() -> str:
    """What keys.txt has to hold."""
    sections = [
        "\n".join([number_of(name), *(f"  {path}" for path in key_paths(parts(document)))])
        for name, document in FILES.items()
    ]
    return "\n\n".join(sections) + "\n"


def test_a_key_that_goes_raises_the_number_of_its_schema():
    before = dict(
        section.split("\n", 1) for section in KEYS.read_text(encoding="utf-8").strip().split("\n\n")
    )
    for section in listed().strip().split("\n\n"):
        number, keys = section.split("\n", 1)
        if number in before:
            gone = {*before[number].splitlines()} - {*keys.splitlines()}
            assert not gone, f"raise the number of {number}, or keep {sorted(gone)}"
    assert KEYS.read_text(encoding="utf-8") == listed(), (
        "run python tests/documents/test_keys.py, and look at the difference"
    )


if __name__ == "__main__":
    KEYS.write_text(listed(), encoding="utf-8")
