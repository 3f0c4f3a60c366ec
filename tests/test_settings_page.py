"""The generated docs/millgate.toml sets nothing as it is, and every default without its marks."""

import re
import tomllib
from pathlib import Path

from millgate.settings import Settings, load
from millgate.settings.schema import values

EXAMPLE = (Path(__file__).parent.parent / "docs" / "millgate.toml").read_text()


def test_the_example_file_sets_nothing():
    assert tomllib.loads(EXAMPLE) == {}


def test_the_example_file_without_its_marks_sets_every_default(tmp_path):
    written = re.sub(r"^# (?=\[|\w+ = )", "", EXAMPLE, flags=re.MULTILINE)
    (tmp_path / "all.toml").write_text(written)
    assert load(tmp_path / "all.toml", environ={}) == Settings()
    unset = {name.rpartition(".")[2] for name, value in values(Settings()) if value is None}
    assert set(re.findall(r"^# (\w+): not set", written, re.MULTILINE)) == unset
