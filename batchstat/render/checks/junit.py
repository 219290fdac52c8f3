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
    """Return JUnit XML: a suite for each check, with its findings as output, and in it a case for
    each limit. An exceeded limit that only warns is a passing case with a message.
    """
    root = ET.Element("testsuites", {"name": "batchstat", **_totals(checks)})
    for check in checks:
        attributes = {"name": _xml_text(check.name), **_totals([check])}
        suite = ET.SubElement(root, "testsuite", attributes)
        if check.error is not None:
            # A check without an answer has no limits to show, so it gets a case of its own.
            case = _case(suite, check, "answer")
            why = {"message": _xml_text(str(check.error)), "type": check.error.id}
            ET.SubElement(case, "error", why)
        for outcome in check.outcomes:
            case = _case(suite, check, outcome.limit.name)
            if outcome.kept:
                continue
            failure = verdicts.failure(outcome)
            details = f"set in: {failure.set_in}\nremedy: {failure.remedy}\n"
            if failure.is_error:
                message = {"message": _xml_text(failure.sentence), "type": "limit"}
                ET.SubElement(case, "failure", message).text = _xml_lines(details)
            else:
                # JUnit has no warnings: the case passes, with the message as its output.
                text = f"warning: {failure.sentence}\n{details}"
                ET.SubElement(case, "system-out").text = _xml_lines(text)
        if check.warnings:
            lines = "".join(f"warning: {finding}\n" for finding in check.warnings)
            ET.SubElement(suite, "system-out").text = _xml_lines(lines)
    ET.indent(root)
    # ElementTree would write the declaration with single quotes.
    elements = ET.tostring(root, encoding="unicode", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{elements}\n'


def _case(suite: ET.Element, check: Check, name: str) -> ET.Element:
    attributes = {"classname": _xml_text(f"batchstat.{check.name}"), "name": _xml_text(name)}
    return ET.SubElement(suite, "testcase", {**attributes, "time": "0"})


def _totals(checks: Sequence[Check]) -> dict[str, str]:
    """Return the counts of test cases; a check without an answer is one: an error."""
    statuses = [outcome.status for check in checks for outcome in check.outcomes]
    errors = sum(check.error is not None for check in checks)
    return {
        "tests": str(len(statuses) + errors),
        "failures": str(statuses.count("fail")),
        "errors": str(errors),
        "time": "0",
    }


def _xml_text(text: str) -> str:
    return _NO_XML.sub(lambda match: ascii(match[0])[1:-1], printable(text))


def _xml_lines(text: str) -> str:
    return "".join(f"{_xml_text(line)}\n" for line in text.splitlines())
