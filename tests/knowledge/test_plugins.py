"""Plugins: what an installed package offers is found, wherever packages may lie."""

import importlib
import sys
import zipfile
from importlib.metadata import PathDistribution

import pytest

from millgate.errors import ConfigError
from millgate.knowledge.providers import load_plugins

MODULE = """
class Plain:
    name = "plain"

    def is_available(self):
        return True

    def prefetch(self, query):
        return query


class Other(Plain):
    name = "other"
"""


def package(entries):
    """The files of an installed package with these entry points."""
    listed = "".join(f"{name} = {value}\n" for name, value in entries.items())
    return {
        "recall_plugin.py": MODULE,
        "recall_plugin-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: recall-plugin\nVersion: 1.0\n",
        "recall_plugin-1.0.dist-info/entry_points.txt": f"[console_scripts]\n\n[millgate.memory]\n{listed}",
    }


@pytest.fixture
def install(tmp_path, monkeypatch):
    def installed(entries, *, archive=False):
        place = tmp_path / ("plugins.zip" if archive else "plugins")
        if archive:
            with zipfile.ZipFile(place, "w") as file:
                for name, text in package(entries).items():
                    file.writestr(name, text)
        else:
            for name, text in package(entries).items():
                path = place / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        monkeypatch.syspath_prepend(place)
        importlib.invalidate_caches()

    return installed


def test_there_are_none_if_no_package_offers_any():
    assert load_plugins() == []


@pytest.mark.parametrize("archive", [False, True])
def test_plugins_come_from_installed_packages_by_name(install, archive):
    install({"b": "recall_plugin:Plain", "a": "recall_plugin:Other"}, archive=archive)
    assert [provider.name for provider in load_plugins()] == ["other", "plain"]


def test_a_finder_of_its_own_may_know_more(tmp_path, monkeypatch):
    found = tmp_path / "hidden-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: hidden\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text("[millgate.memory]\nhidden = builtins:dict\n")

    class Finder:
        def find_spec(self, name, path=None, target=None):
            return None

        def find_distributions(self, context):
            return [PathDistribution(found)]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    with pytest.raises(ConfigError, match="'hidden'"):
        load_plugins()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere_at_all:X", "cannot be loaded"),
        ("math:nope", "cannot be loaded"),
        ("builtins:dict", "no prefetch"),
    ],
)
def test_a_broken_plugin_is_named(install, value, reason):
    install({"bad": value})
    with pytest.raises(ConfigError, match=rf"'bad'.*{reason}"):
        load_plugins()
