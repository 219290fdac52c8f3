"""What commands give: files in the results folder, a screen or JSON, and warnings."""

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from batchstat.cli.inputs import Inputs
from batchstat.cli.pasted import command_line
from batchstat.cli.profiles import OTHER_PAGE, FoundProfile, maximum_findings, profile_findings
from batchstat.cli.records import Output
from batchstat.cli.streams import console, emit, render, say, warn, wrote_line
from batchstat.documents.base import to_text
from batchstat.documents.profile import profile_document
from batchstat.findings import Finding
from batchstat.lengths.max_length import USUAL_BATCH_SIZE, usual_padding
from batchstat.profiling.parquet import save_lengths
from batchstat.profiling.profile import Profile
from batchstat.render.screens.profile import identity, profile_screen
from batchstat.storage.result_files import (
    LENGTHS_FILE,
    PROFILE_FILE,
    outdated_files,
    plot_file,
    profile_version,
)
from batchstat.storage.results import Writer, encoded, only_writer, write_file, write_files
from batchstat.storage.shown import is_remote
from batchstat.words import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from batchstat.render.plots.pictures import Result


@dataclass(frozen=True)
class CommandResult:
    """The result of a command that works from a profile."""

    file: str
    document: dict[str, Any]  # what the JSON file holds
    screen: "RenderableType"
    plotted: "Result | None"  # what its plots are drawn from; None if it has none
    page: Callable[[], str]  # returns its HTML page
    warnings: Collection[Finding] = ()


def store(found: FoundProfile, result: CommandResult, output: Output) -> Collection[str]:
    """Write the results of a command, with the profile if the folder lacks it; return the names."""
    profile, folder = found.profile, output.output
    result_files = {
        result.file: encoded(to_text(result.document)),
        **plot_files(result.plotted, output),
    }
    # With a version, the profile is from the folder, and its files are there already.
    files = {} if found.version else profile_files(profile, output)
    with only_writer(folder):
        # Another run may have replaced the profile up to here; under the lock, none can.
        if found.version and found.version != profile_version(folder):
            files = profile_files(profile, output)
        files |= result_files
        write_files(folder, files, remove=outdated_files(folder, files))
    return files


def publish(found: FoundProfile, result: CommandResult, output: Output) -> None:
    """Print the results of a command below a heading that names the profile or the recording, then
    store them, since its plots take longer than all else. JSON, which is alone on standard output,
    is printed at the end: an error before it is JSON, too. Its heading is on standard error.
    """
    target = console()
    if found.run is None:
        subject = identity(found.profile, datetime.now(UTC))
    else:
        from batchstat.render.screens.recording import recorded_identity

        subject = recorded_identity(found.run, found.profile)
    heading = render(subject, target)
    if output.as_json:
        say(heading.rstrip())
    else:
        emit(heading + render(result.screen, target), sys.stdout.encoding)
    warn(*result.warnings)
    say(wrote_line(store(found, result, output), output.output))
    write_page(output, result.page)
    if output.as_json:
        emit(to_text(result.document))


def publish_profile(inputs: Inputs, profile: Profile, output: Output) -> None:
    """Show a profile and what to run next, then write it; JSON at the end, as in `publish`."""
    command = command_line(inputs, "compare", batch_size=USUAL_BATCH_SIZE)
    basis = inputs.settings.resolve(profile.stats.max, profile.stated_max)
    trained = profile.stats.cut(basis.max_length, basis.overflow)
    padding = usual_padding(trained) if trained.count else None  # the settings may leave no sample
    if not output.as_json:
        target = console()
        emit(render(profile_screen(profile, target, padding, command), target), sys.stdout.encoding)
    inputs.warn(*maximum_findings(profile), *profile_findings(profile))
    files = profile_files(profile, output)
    with only_writer(output.output):
        write_files(output.output, files, remove=outdated_files(output.output, files))
    say(wrote_line(files, output.output))

    def page() -> str:
        from batchstat.render.html.pages import profile_page

        return profile_page(profile, padding, command)

    write_page(output, page)
    if output.as_json:
        emit(to_text(profile_document(profile)))


def plot_files(plotted: "Result | None", output: Output) -> dict[str, bytes]:
    """Return the plots of a result by their names in the results folder; none unless wanted."""
    if plotted is None or not output.plots:
        return {}
    from batchstat.render.plots.pictures import pictures

    return {
        plot_file(name, output.plot_format): picture.encoded(output.plot_format)
        for name, picture in pictures(plotted).items()
    }


def profile_files(profile: Profile, output: Output) -> dict[str, bytes | Writer]:
    """Return the files of a profile by their names in the results folder."""
    return {
        PROFILE_FILE: encoded(to_text(profile_document(profile))),
        LENGTHS_FILE: lambda file: save_lengths(profile, file),
        **plot_files(profile, output),
    }


def write_page(output: Output, page: Callable[[], str]) -> None:
    """Write the page for `--html`, if it was given, and open it in a browser for `--open`."""
    path = output.html
    if path is None:
        return
    write_file(path, page().encode("utf-8", "backslashreplace"), remedy=OTHER_PAGE)
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
