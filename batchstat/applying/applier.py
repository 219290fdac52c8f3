"""Cuts the batches of a command as a dry run has checked it, or makes these checks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from .checks import Found, LoopCheck, check_trainer, checked_of, why_left_alone
from .cutting import UnknownError, arrays_by_place, from_json, replaced, to_json
from .learning import Learner
from .loaders import KEY, draws_for_samples, is_installed, patch_loaders
from .outputs import Checked
from .pace import PacedCut
from .step_state import all_agree, dropouts_of

RANK_FILE = "verdict-%05d.json"  # what a rank writes; the starting process joins them
UNENDED = "the command ended within the checks, which take some ten steps of one epoch"
_VERSIONS = ("torch", "transformers", "accelerate", "lightning", "trl")


class Applier:
    """What cuts batches in this process; in a dry run, what learns and checks how."""

    def __init__(self, folder: str, multiple: int, verdict_file: str, ranks: Any) -> None:
        """Write into a folder, in a dry run; else read its verdict. `ranks` is that of the log."""
        self._ranks = ranks
        self.is_checking = False  # whether the loop computes for the checks
        self.check: LoopCheck | None = None  # of a loop, once it began
        self._folder, self._multiple = folder, multiple
        self._learners: dict[str, Learner] = {}
        self._last_key = ""  # of the loader that was iterated last
        self._draws = False  # whether it draws samples by torch's own random numbers
        self._verdict: dict[str, Any] | None = None
        self._verdict_file = verdict_file
        self._paced: PacedCut | None = None  # once a loader that is cut was iterated
        self._rank: dict[str, Any] = {"key": "", "cut": None}  # of its verdict
        if verdict_file:
            try:
                with open(verdict_file, encoding="utf-8") as stream:
                    self._verdict = json.load(stream)
            except (OSError, ValueError) as error:
                self._say("its verdict cannot be read: %s" % error)

    def patch(self, torch: Any, patches: Any) -> None:
        """Patch the loaders of torch."""
        patch_loaders(torch, patches, self._begin, self._note_tokens)

    def _say(self, why: str) -> None:
        print("batchstat: nothing is cut: %s" % why, file=sys.stderr)

    def _begin(self, iterator: Any) -> None:
        """Let an iterator collate batches that are cut, if its loader is the one of the verdict."""
        self._last_key = iterator.__dict__[KEY]
        self._draws = draws_for_samples(iterator)
        if self._verdict is None or self._verdict["key"] != self._last_key:
            return
        if why := _why_another(self._verdict["environment"], self._ranks()[1]):
            self._verdict = None
            self._say(why + ": the next run checks it again")
            with contextlib.suppress(OSError):  # another rank may have removed it
                os.remove(self._verdict_file)
            return
        if self._paced is None:
            self._paced = PacedCut()
            self._paced.shared.set(from_json(self._verdict["cut"]))
        self._paced.begin(iterator)

    def _note_tokens(self, before: int, after: int) -> None:
        assert self._paced is not None, "no other batches have tokens"
        self._paced.note_tokens(before, after)

    def note_step(self) -> None:
        """Note that a step has ended."""
        why_off = "" if self._paced is None else self._paced.note_step()
        if why_off:
            print("batchstat: nothing more is cut: %s" % why_off, file=sys.stderr)

    # --- in a dry run ----------------------------------------------------------------------------
    def note(self, iterator: Any, data: Any, parts: Any, pad_token_id: Any, extra: Any) -> bool:
        """Look at a batch of an iterator, None for the last one; as `Learner.note` does."""
        key = self._last_key if iterator is None else iterator.__dict__.get(KEY, "")
        if iterator is None:  # accelerate's loader has moved what its collator made to the device
            arrays = arrays_by_place(data, anywhere=True)
            data = replaced(data, {place: array.cpu() for place, array in arrays})
        learner = self._learners.get(key)
        if learner is None:
            learner = self._learners[key] = Learner(pad_token_id)
        return learner.note(data, parts, extra)

    def begin_loop(self, model: Any, optimizers: Any, given_of: Any, stop: Any) -> bool:
        """Begin to check a loop, which then computes what `check.next_batch` gives it; return
        whether there is anything to check. `given_of` is that of `checked_of`.
        """
        batches = self._ready(model, given_of)
        if not batches:
            return False

        def end(found: Found) -> None:
            self.write(**found._asdict())
            stop("its checks have ended")

        self.check = LoopCheck(model, optimizers, batches, end)
        self.is_checking = True
        return True

    def check_trainer(self, model: Any, given_of: Any) -> None:
        """Check a Trainer, by what was kept with its batches: what computes one."""
        batches = self._ready(model, given_of)
        if batches:
            self.is_checking = True
            (learner,) = self._learners.values()
            assert learner.widest is not None
            self.write(**check_trainer(model, batches, learner.widest.extra)._asdict())

    def _ready(self, model: Any, given_of: Any) -> list[Checked]:
        """Return the batches to check on this rank; none where a rank has nothing, as the verdict
        of this one then says.
        """
        on_device = any(each.device.type != "cpu" for each in model.parameters())
        batches: list[Checked] = []
        why = "batches of several loaders were read, and which of them trains is not known"
        if not self._learners:
            why = "its loader had no batch left to look at behind the first steps"
        try:
            why_left = why_left_alone(model, bool(self._multiple))
            if "" in self._learners:
                why_left = "its loader iterates by itself, as StatefulDataLoader of torchdata does"
            # Narrower batches draw fewer numbers for it. A configuration's may be of no module.
            owners = [owner for owner, _, _ in dropouts_of(model.modules())]
            if self._draws and not on_device and any(hasattr(each, "training") for each in owners):
                why_left = "its loader and dropout share random numbers: give it a generator"
            if why_left:
                why = why_left
            elif len(self._learners) == 1:
                ((self._rank["key"], learner),) = self._learners.items()
                cut = learner.cut(self._multiple, on_device)
                self._rank["cut"] = to_json(cut)
                batches = [checked_of(each, cut, given_of) for each in learner.checked]
                why = UNENDED
        except UnknownError as error:
            why = str(error)
        self.write(why_not=why)
        if all_agree(bool(batches)):
            return batches
        if batches:
            self.write(why_not="another rank has nothing to cut")
        return []

    def write(self, **found: Any) -> None:
        """Write what was found, such as `why_not`, for the verdict."""
        environment = _environment(self._ranks()[1])
        content = {**self._rank, "apart": 0.0, "outputs": 0, "environment": environment, **found}
        path = os.path.join(self._folder, RANK_FILE % self._ranks()[0])
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        os.replace(path + ".new", path)


def _environment(world_size: int) -> dict[str, Any]:
    # With the digests of the files that the command imported, outside of installed packages.
    files = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    # Modules of torch name files that there are not.
    own = {f for f in files if isinstance(f, str) and os.path.isfile(f) and not is_installed(f)}
    digests = {file: digest_of(file) for file in sorted(map(os.path.abspath, own))}
    return {"versions": _versions(), "world_size": world_size, "files": digests}


def _versions() -> dict[str, str]:
    modules = {name: getattr(sys.modules.get(name), "__version__", None) for name in _VERSIONS}
    versions = {name: str(version) for name, version in modules.items() if version}
    return {"Python": "%d.%d.%d" % sys.version_info[:3], **versions}


def digest_of(file: str) -> str:
    """Return a digest of a file's content; empty where it cannot be read."""
    try:
        with open(file, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""


def _why_another(known: Mapping[str, Any], world_size: int) -> str:
    """Return what is not as it was in the dry run; empty if all is."""
    if known["world_size"] != world_size:
        return "the dry run had another number of ranks, %d" % known["world_size"]
    here = _versions()
    for name, version in known["versions"].items():
        if here.get(name, version) != version:
            return "the dry run had %s %s" % (name, version)
    changed = [file for file, digest in known["files"].items() if digest_of(file) != digest]
    return "%s has changed since the dry run" % changed[0] if changed else ""
