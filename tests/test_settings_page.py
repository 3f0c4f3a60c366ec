"""docs/settings.md is generated from the schema; this test says how to bring it up to date."""

from pathlib import Path

from headgate.settings import page

DOC = Path(__file__).parent.parent / "docs" / "settings.md"


def test_the_page_of_settings_is_up_to_date():
    assert DOC.read_text() == page(), "run: make docs"
