"""axe-core, from its registry, on every view: nothing to object to in light, and enough contrast in the dark."""

import orjson
import pytest
from bench.fixtures.sessions import healthy_session, looping_session, render
from tests.dashboard.browser import PHONE, opened
from tests.dashboard.views import VIEWS, demo_service
from tests.programs import install_package

from millgate.sessions.xray.page import page as write_page
from millgate.sessions.xray.session import analyze

pytestmark = pytest.mark.slow

FIND = """only => axe.run(document, only ? {runOnly: only} : {}).then(found => found.violations
  .map(one => `${one.id}: ${one.nodes.map(node => node.html).slice(0, 3).join(" | ")}`))"""


@pytest.fixture(scope="module")
def axe():
    """The program, as a text."""
    return (install_package("axe-core", 4) / "node_modules/axe-core/axe.min.js").read_text()


@pytest.fixture(scope="module")
def told():
    with demo_service() as told:
        yield told


@pytest.fixture(scope="module")
def page(browser, told):
    # colors that are on their way to others would be measured
    with opened(browser, told[0], clean=False, reduced_motion="reduce") as page:
        yield page


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(page, told, axe, view):
    page.emulate_media(color_scheme="light")
    page.goto(told[1][view])
    # not as a script of the page, which its policy would refuse
    page.evaluate(axe)
    assert page.evaluate(FIND) == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(FIND, ["color-contrast"]) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_page_of_an_xray(browser, axe, tmp_path, scheme):
    sessions = {"healthy": healthy_session(1), "looping": looping_session(3, period=2, copies=5, lead=0)[0]}  # fmt: skip
    for name, made in sessions.items():
        (tmp_path / f"{name}.jsonl").write_bytes(
            b"\n".join(map(orjson.dumps, render(made, "chat")))
        )
    (tmp_path / "page.html").write_text(write_page(analyze(sorted(tmp_path.iterdir()))))
    with opened(browser, "file://", color_scheme=scheme) as page:
        page.goto(f"file://{tmp_path}/page.html")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.evaluate(axe)
        assert page.evaluate(FIND, None) == []


def test_every_view_loads_cleanly_and_fits_a_phone(browser, told):
    url, paths = told
    with opened(browser, url, viewport=PHONE) as page:
        for name, path in paths.items():
            if name != "not found":
                assert page.goto(path).status == 200, name
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name


def test_a_keyboard_reaches_the_content_and_leaves_it(page):
    page.goto("/dashboard/health")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id || location.hash").strip("#") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
