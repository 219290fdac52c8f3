"""Keep one comment on a pull request with the report of a check: python comment.py REPORT.md

It reads what GitHub tells a step by variables, and TOKEN and PAGE, the address of the HTML page.
Where the token may not comment, as in a pull request from a fork, the summary of the job has the
report, and nothing fails.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 in a comment."""
PER_PAGE = 100
NOT_ALLOWED = (401, 403, 404)


def asked(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """Return what GitHub's API answers to one request."""
    request = Request(
        f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/issues/{path}",
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
        },
    )
    with urlopen(request, timeout=60) as response:
        return json.load(response)


def own_comment(number: int, mark: str) -> int | None:
    """Return the comment that an earlier run made; None if there is none."""
    page = 1
    while comments := asked("GET", f"{number}/comments?per_page={PER_PAGE}&page={page}"):
        for comment in comments:
            # Anybody may write the mark.
            if mark in comment["body"] and comment["user"]["type"] == "Bot":
                return int(comment["id"])
        page += 1
    return None


def main() -> None:
    """Write the comment, or say why there is none."""
    report, page = Path(sys.argv[1]).read_text(encoding="utf-8"), os.environ.get("PAGE")
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event["pull_request"]["number"]
    mark = f"<!-- batchstat {os.environ['GITHUB_WORKFLOW']} / {os.environ['GITHUB_JOB']} -->"
    link = f"\n[Report with all numbers]({page})\n" if page else ""
    body = {"body": f"{mark}\n{report[:MOST_CHARACTERS]}{link}"}
    try:
        comment = own_comment(number, mark)
        if comment is None:
            asked("POST", f"{number}/comments", body)
        else:
            asked("PATCH", f"comments/{comment}", body)
    except HTTPError as error:
        if error.code not in NOT_ALLOWED:
            raise
        print(f"no comment: the token may not write one ({error.code}); see the job's summary")


if __name__ == "__main__":
    main()
