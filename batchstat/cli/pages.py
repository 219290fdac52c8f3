"""The page that a command writes with --html, and a browser that shows it."""

import os
from collections.abc import Callable

from batchstat.cli.records import Output
from batchstat.cli.streams import say
from batchstat.storage.results import check_file, check_results, write_file
from batchstat.storage.shown import is_remote
from batchstat.words import printable

_REMEDY = "name another with --html"


def check_outputs(output: Output) -> None:
    """Raise InputError, before any work is done, if the results or the page cannot be written."""
    check_results(output.output)
    if output.html is not None:
        check_file(output.html, _REMEDY)


def write_page(output: Output, page: Callable[[], str]) -> None:
    """Write the page for `--html`, if it was given, and open it in a browser for `--open`."""
    path = output.html
    if path is None:
        return
    write_file(path, page().encode("utf-8", "backslashreplace"), remedy=_REMEDY)
    say(f"wrote {path.as_posix()}")
    address = str(path) if is_remote(path) else path.resolve().as_uri()
    if output.open_page and not _try_opening(address):
        say(f"no browser to open {printable(path.as_posix())} with: open it by hand")


def _try_opening(address: str) -> bool:
    """Open an address in a browser with a window. Return whether one was opened."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    # Text browsers, such as lynx, would take over the terminal, unless the user's BROWSER names it.
    if type(browser) is webbrowser.GenericBrowser and "BROWSER" not in os.environ:
        return False
    return browser.open(address)
