"""What the keys of documents mean: the sentence below each field.

Only schemas have them, so they are read from the source where a schema is written. pydantic would
read them whenever documents load, which takes longer than the rest of loading them.
"""

import ast
import inspect
import sys
from functools import cache

from batchstat.documents.base import Document


def descriptions(document: type[Document]) -> dict[str, str]:
    """Return the sentences below the fields of a document, inherited ones too, by field."""
    found: dict[str, str] = {}
    for each in reversed(document.__mro__):
        if issubclass(each, Document):
            found |= _of_module(each.__module__).get(each.__name__, {})
    return {name: text for name, text in found.items() if name in document.model_fields}


@cache
def _of_module(module: str) -> dict[str, dict[str, str]]:
    """Return the sentences in a module, by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef))
    return {each.name: _of_class(each) for each in classes}


def _of_class(defined: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(defined.body, defined.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found
