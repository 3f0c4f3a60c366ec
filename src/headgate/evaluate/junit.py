"""JUnit: the outcomes of regression tests in the XML that CI systems read."""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from headgate.evaluate.regression import CaseResult, describe

# what XML cannot hold
_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcomes: Sequence[CaseResult], *, suite: str) -> str:
    """The report of one file of tests."""
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    root = Element("testsuites")
    head = {"name": _clean(suite), "tests": str(len(outcomes)), "failures": str(failed), "errors": "0", "time": f"{seconds:.3f}"}  # fmt: skip
    cases = SubElement(root, "testsuite", head)
    for outcome in outcomes:
        named = {"classname": _clean(suite), "name": _clean(outcome.case.name), "time": f"{outcome.seconds:.3f}"}  # fmt: skip
        case = SubElement(cases, "testcase", named)
        if outcome.failures:
            first = outcome.failures[0]
            lines = describe(outcome)
            message = _clean(f"{first.kind}: {first.what}: {first.why}")
            SubElement(case, "failure", {"message": message}).text = _clean("\n".join(lines))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
