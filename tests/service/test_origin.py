"""Origin: which page a request comes from."""

import pytest

from millgate.service.edge.origin import is_same_origin

HOST = {b"host": b"localhost:8642"}


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {b"sec-fetch-site": b"none"},
        {b"sec-fetch-site": b"same-origin", b"origin": b"http://localhost:8642"},
        {b"origin": b"https://localhost:8642"},
    ],
)
def test_no_page_or_a_page_of_the_same_host_is_let_through(sent):
    assert is_same_origin(HOST | sent)


@pytest.mark.parametrize(
    "sent",
    [
        {b"sec-fetch-site": b"cross-site"},
        {b"sec-fetch-site": b"same-site"},
        {b"origin": b"http://localhost:3000"},
        {b"origin": b"http://localhost"},
        {b"origin": b"null"},
        {b"origin": b""},
        {b"origin": b"http://[broken"},
        {b"sec-fetch-site": b"same-origin", b"origin": b"http://evil.example"},
    ],
)
def test_a_page_of_another_origin_is_seen(sent):
    assert not is_same_origin(HOST | sent)


def test_an_origin_without_a_host_is_another_one():
    assert not is_same_origin({b"origin": b"http://localhost"})
