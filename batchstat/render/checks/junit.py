"""Checks as JUnit XML, for GitLab, Jenkins and others: a test case for each limit."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from batchstat.gate.outcome import Check
from batchstat.render.checks import verdicts
from batchstat.words import printable

# XML 1.0 has no such characters; `printable` leaves them as they are.
_NO_XML = re.compile("[\ufffe\uffff]")


def check_junit(checks: Sequence[Check]) -> str:
    """Return the checks as JUnit XML: a test suite for each check, and in it a test case for each
    limit. An exceeded limit is a failure, or, where it only warns, a passing case with a message.
    """
    root = ET.Element("testsuites", {"name": "batchstat", **_totals(checks)})
    for check in checks:
        suite = ET.SubElement(root, "testsuite", {"name": _plain(check.name), **_totals([check])})
        if check.error is not None:
            # A check without an answer has no limits to show, so it gets a case of its own.
            case = _case(suite, check, "answer")
            ET.SubElement(case, "error", {"message": _plain(check.error), "type": "InputError"})
        for outcome in check.outcomes:
            case = _case(suite, check, outcome.limit.name)
            if outcome.kept:
                continue
            failure = verdicts.failure(outcome)
            details = f"set in: {failure.set_in}\nremedy: {failure.remedy}\n"
            if failure.is_error:
                message = {"message": _plain(failure.sentence), "type": "limit"}
                ET.SubElement(case, "failure", message).text = _plain_lines(details)
            else:
                # JUnit has no warnings: the case passes, with the message as its output.
                text = f"warning: {failure.sentence}\n{details}"
                ET.SubElement(case, "system-out").text = _plain_lines(text)
    ET.indent(root)
    # `join` puts its text between the two parts: the declaration with double quotes, which
    # ElementTree writes with single ones, and the line end after the last tag.
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _case(suite: ET.Element, check: Check, name: str) -> ET.Element:
    attributes = {"classname": _plain(f"batchstat.{check.name}"), "name": _plain(name)}
    return ET.SubElement(suite, "testcase", {**attributes, "time": "0"})


def _totals(checks: Sequence[Check]) -> dict[str, str]:
    """Return the counts that a suite and the root of the file have as attributes."""
    statuses = [outcome.status for check in checks for outcome in check.outcomes]
    errors = sum(check.error is not None for check in checks)
    return {
        "tests": str(len(statuses) + errors),
        "failures": str(statuses.count("fail")),
        "errors": str(errors),
        "time": "0",
    }


def _plain(text: str) -> str:
    return _NO_XML.sub(lambda match: ascii(match[0])[1:-1], printable(text))


def _plain_lines(text: str) -> str:
    return "".join(f"{_plain(line)}\n" for line in text.splitlines())
