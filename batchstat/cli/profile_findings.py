"""Findings about a profile, whatever is simulated from it."""

from collections.abc import Iterator

from batchstat.findings import Finding
from batchstat.profiling.profile import Profile
from batchstat.words import counted


def profile_findings(profile: Profile) -> Iterator[Finding]:
    """Yield findings about splits that are missing, and what a template leaves out of chats."""
    if failed := profile.corpus.failed:
        more = f", and {len(failed) - 1:,} more" if len(failed) > 1 else ""
        yield Finding(
            "profile/partial",
            f"the profile is partial and covers only what could be read: {failed[0]}{more}; "
            "records are numbered as if the missing splits were empty",
        )
    ignored = [
        f"{name.replace('_', ' ')} of {counted(chats, 'chat')}"
        for name, chats in profile.corpus.left_out.items()
    ]
    if ignored:
        yield Finding(
            "chat/ignored-parts",
            f"the chat template ignores {', '.join(ignored)}; they are not counted, as "
            "training with this template does not see them; use --chat-template FILE for another "
            "template",
        )


def maximum_findings(profile: Profile) -> Iterator[Finding]:
    """Yield the finding about samples that are longer than the tokenizer's maximum."""
    limit = profile.stated_max
    if limit is None:
        return
    samples, _ = profile.stats.above(limit)
    if samples:
        yield Finding(
            "lost/truncated",
            f"{samples:,} of {counted(len(profile), 'sample')} exceed the tokenizer's maximum of "
            f"{limit:,} tokens; profile counts them in full, compare truncates them unless "
            "--max-length or --overflow says otherwise",
        )
