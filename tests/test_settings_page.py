"""docs/settings.md and docs/millgate.toml are generated from the schema; a test says how to renew them."""

import re
import tomllib
from pathlib import Path

from millgate.settings import Settings, load, page
from millgate.settings.schema import values
from millgate.settings.show import example_file

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_settings_is_up_to_date():
    assert (DOCS / "settings.md").read_text() == page(), "run: make docs"


def test_the_example_file_is_up_to_date_and_sets_nothing():
    assert (DOCS / "millgate.toml").read_text() == example_file(), "run: make docs"
    assert tomllib.loads(example_file()) == {}


def test_the_example_file_without_its_marks_sets_every_default(tmp_path):
    written = re.sub(r"^# (?=\[|\w+ = )", "", example_file(), flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(written)
    assert load(tmp_path / "all.toml", environ={}) == Settings()
    unset = {name.rpartition(".")[2] for name, value in values(Settings()) if value is None}
    assert set(re.findall(r"^# (\w+): not set", written, re.MULTILINE)) == unset
