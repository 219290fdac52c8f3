"""Revisions of the git repository that the working folder is in."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchstat.errors import InputError, MissingError
from batchstat.storage.shown import one_line

_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
"""Variables by which git tells a hook its repository: with them, a checkout of another revision
would change the index of the commit that is being made.
"""


@dataclass(frozen=True)
class Revision:
    """A revision of the repository that the working folder is in.

    Attributes:
        name: as the user wrote it.
        commit: where the work that is checked out began to differ from it.
        root: the repository.
        folder: the working folder, relative to that.
        is_here: whether it is what is checked out, with no file of the repository changed.
    """

    name: str
    commit: str
    root: Path
    folder: str
    is_here: bool

    @contextmanager
    def checked_out(self) -> Iterator[Path]:
        """Check it out into a folder of its own, which is deleted at the end; what is checked out
        already stays where it is.
        """
        if self.is_here:
            yield self.root
            return
        with tempfile.TemporaryDirectory(prefix="batchstat-", ignore_cleanup_errors=True) as parent:
            root = Path(parent).resolve() / "base"
            # A worktree and no archive, so that filters run, as for files in Git LFS; but no hooks.
            no_hooks = ("-c", f"core.hooksPath={os.devnull}")
            _git(*no_hooks, "worktree", "add", "--quiet", "--detach", str(root), self.commit)
            try:
                yield root
            finally:
                with suppress(InputError):
                    _git("worktree", "remove", "--force", str(root))


def find_revision(name: str) -> Revision:
    """Return a revision. Raises InputError if there is none, or no repository."""
    try:
        root, folder = _git("rev-parse", "--show-toplevel", "--show-prefix").split("\n")
        head = _git("rev-parse", "--verify", "HEAD")
    except InputError as error:
        raise InputError(f"--base {name}: there is no such file, and {error.problem}") from None
    try:
        tip = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except InputError:
        remote, _, branch = name.partition("/")
        remedy = "name a file, or what git rev-parse knows"
        if remote == "origin" and branch:  # git fetch origin X makes no origin/X in a shallow clone
            remedy = f"run git fetch origin +refs/heads/{branch}:refs/remotes/{name}"
        raise MissingError(
            f"--base {name}: there is neither such a file nor such a revision", remedy
        ) from None
    commit = tip
    # A shallow clone does not know where branches began: there it is the tip itself.
    with suppress(InputError):
        commit = _git("merge-base", tip, head)
    is_here = commit == head and not _git("status", "--porcelain", "--untracked-files=no")
    return Revision(name, commit, Path(root).resolve(), folder, is_here)


def moved(place: Path, of: Path, folder: str, value: Any) -> Any:
    """Return a value of a process that works in one checkout for one that works in another.

    Args:
        place: the checkout that it is for.
        of: the checkout that it is of.
        folder: where both work in it.
        value: paths, also in lists and mappings. An absolute path in `of` becomes one in `place`; a
            relative one that leads out of the checkout becomes absolute; all else stays as it is.
    """
    if isinstance(value, Mapping):
        return {key: moved(place, of, folder, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(place, of, folder, each) for each in value)
    if place == of or not isinstance(value, str | Path):
        return value
    path = Path(value)
    if path.is_absolute():
        # The way to it may lead through links; the file itself may be one, to somewhere else.
        named = path.parent.resolve() / path.name
        path = place / named.relative_to(of) if named.is_relative_to(of) else path
    elif ".." in path.parts:
        named = Path(os.path.normpath(of / folder / path))
        path = path if named.is_relative_to(of) else named
    else:
        return value
    return path if isinstance(value, Path) else path.as_posix()


def _git(*arguments: str) -> str:
    """Return what git prints. Raises InputError if it fails or is not installed."""
    environment = {key: os.environ[key] for key in os.environ if key not in _OF_HOOKS}
    try:
        done = subprocess.run(
            ["git", *arguments],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",  # names of folders may have any bytes
            check=True,
        )
    except OSError as error:
        raise InputError(f"git cannot be run ({one_line(error)})") from None
    except subprocess.CalledProcessError as error:
        raise InputError(f"git says: {one_line(error.stderr.strip())}") from None
    return done.stdout.removesuffix("\n")
