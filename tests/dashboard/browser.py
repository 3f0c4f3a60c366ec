"""A real browser on the pages: Chromium without a window, and what its console says."""

from contextlib import contextmanager
from pathlib import Path

from tests.programs import find_program

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "install it (Debian: apt-get install chromium; elsewhere: .venv/bin/playwright install chromium), then run the tests again"
PHONE = {"width": 390, "height": 844}
BUSY_MS = 60_000  # what a page may take on a busy machine


@contextmanager
def running():
    """The browser, for the tests of one file. Its process ends with them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = own if Path(own).exists() else find_program(*NAMES, how=HOW)
        # as root, as in most containers, Chromium runs only without its sandbox; the pages are our own
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, base, *, clean=True, **options):
    """A tab. With `clean` it must end without an error in its console, and nothing may come from elsewhere."""
    context = browser.new_context(base_url=base, **options)
    page = context.new_page()
    page.set_default_timeout(BUSY_MS)
    wrong, asked = [], []
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)  # fmt: skip
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    try:
        yield page
        if clean:
            assert not wrong, wrong
        assert [url for url in asked if not url.startswith(base)] == []
    finally:
        context.close()


def expect(found):
    """What the page must come to show, sooner or later."""
    from playwright.sync_api import expect

    expect.set_options(timeout=BUSY_MS)
    return expect(found)
