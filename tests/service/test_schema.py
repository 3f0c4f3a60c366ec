"""The OpenAPI description holds: generated requests find no 5xx and no answer that differs from it."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings


@pytest.fixture(autouse=True, scope="module")
def framework():
    """Imported here: each process of a test run reads this file, and few run it."""
    global schemathesis, GenerationMode, CONFIG, positive_data_acceptance
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import CHECKS, load_all_checks
    from schemathesis.config import SchemathesisConfig

    CONFIG = SchemathesisConfig.from_dict(
        {
            "checks": {
                "negative_data_rejection": {"expected-statuses": REFUSED},
                "positive_data_acceptance": {"expected-statuses": ACCEPTED},
            }
        }
    )

    load_all_checks()

    positive_data_acceptance = CHECKS.get_one("positive_data_acceptance")


# What is too large is refused with 413, which is not among the statuses expected by default: the schema cannot tell
# how much the settings of a service allow.
REFUSED = [400, 401, 403, 404, 405, 413, 415, 422, 429]
ACCEPTED = ["2xx", "3xx", 401, 403, 404, 409, 413, 429, "5xx"]

ROWS = [{"id": f"d{n}", "text": f"Refund {n} is paid by card in {n} days."} for n in range(3)]


@pytest.fixture(scope="module")
def service():
    """A service with one of everything, and a key to it."""
    quick = {"rate": 1e9, "burst": 10**9, "log": False}
    with Millgate.open(settings=Settings(store=":memory:", service=quick)) as gate:
        gate.add(ROWS)
        gate.remember("Refunds are paid by card.")
        gate.context("refund")
        made = gate.keys.create(["admin"])
        yield create(gate), made.token


# Where an input is judged by more than a schema can say: a text of control characters says nothing, a setting has a
# range of its own, an anchor must be there, a window holds messages or is a fingerprint.
FINER = {
    "/v1/context",
    "/v1/fingerprint",
    "/v1/facts",
    "/v1/facts/{id}",
    "/v1/turns",
    "/v1/graph/edges",
    "/v1/graph/slices",
    "/v1/graph/verify",
    "/v1/traces/{id}/replay",
}
TAGS = [
    "context",
    "strategy",
    "documents",
    "turns",
    "facts",
    "fingerprint",
    "graph",
    "hooks",
    "reviews",
    "sessions",
    "traces",
    "service",
]


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("mode", ["positive", pytest.param("negative", marks=pytest.mark.slow)])
@pytest.mark.parametrize("tag", TAGS)
def test_every_answer_is_as_described(service, tag, mode):
    app, key = service
    described = schemathesis.openapi.from_asgi("/openapi.json", app, config=CONFIG)
    for found in described.include(tag=tag).get_all_operations():
        _examine(found.ok(), GenerationMode(mode), key)


def test_every_route_has_a_known_tag(service):
    paths = service[0].openapi()["paths"]
    assert {tag for path in paths.values() for op in path.values() for tag in op["tags"]} == set(
        TAGS
    )


def _examine(operation, mode, key):
    # each tag has several operations
    few = max(4, settings().max_examples // 6)

    @settings(max_examples=few, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def examined(case):
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            case.body.pop("task", None)  # the tasks that are known depend on the settings
        excluded = [positive_data_acceptance] if case.path in FINER else []
        case.call_and_validate(headers={"authorization": f"Bearer {key}"}, excluded_checks=excluded)

    with suppress(Unsatisfiable):  # an operation without anything to get wrong
        examined()
