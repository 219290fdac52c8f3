"""How Sphinx builds the documentation: `sphinx-build -W -b html docs FOLDER`."""

import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

from batchstat._version import __version__

sys.path.insert(0, str(Path(__file__).parent))
from reference_pages import write_pages

project = "batchstat"
author = copyright = "batchstat contributors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
default_role = "literal"  # docstrings have names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = "batchstat"
html_copy_source = False


_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def setup(app: Sphinx) -> None:
    """Write the reference before Sphinx looks for pages, and the address of the repository into
    them.
    """
    app.connect("source-read", _write_address)
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "reference"))
    app.connect("autodoc-process-docstring", _rejoin_property, priority=900)


def _write_address(app: object, page: str, source: list[str]) -> None:
    """Replace ADDRESS by the address of the repository, where it is known."""
    if address := _PROJECT.get("urls", {}).get("Repository"):
        source[0] = source[0].replace("git+ADDRESS", f"git+{address}")


def _rejoin_property(
    app: object, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Undo what napoleon makes of a property's colon: it takes the words before it for a type."""
    taken = next((line for line in lines if line.startswith(":type: ")), None)
    if kind == "property" and taken is not None:
        lines.remove(taken)
        lines[0] = f"{taken.removeprefix(':type: ')}: {lines[0]}"
