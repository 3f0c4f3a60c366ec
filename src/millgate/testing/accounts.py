"""KeyContract and SpendContract: what every store promises about API keys, and about what was spent."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from millgate.errors import InputError
from millgate.protocols import Store
from millgate.types import Key, Spend, SpendScope

BOTH: list[tuple[SpendScope, str]] = [("session", "s"), ("tenant", "")]


def _add(rows: list[Spend]) -> list[Spend]:
    return [replace(row, tokens=row.tokens + 1, last=row.last + 1) for row in rows]


class KeyContract:
    """API keys: found by hash, listed and revoked by tenant."""

    def test_a_key_is_found_by_its_hash_and_listed_for_its_tenant(self, store: Store) -> None:
        mine = Key("1", "hash-1", "t", ("read", "write"), "laptop", created=2.0)
        other = Key("1", "hash-2", "u", ("admin",), created=1.0)
        store.save_key(mine)
        store.save_key(other)
        assert store.key("hash-1") == mine
        assert store.key("hash-3") is None
        assert store.keys("t") == [mine]
        assert store.keys() == [other, mine]

    def test_a_key_is_revoked_once_and_by_its_own_tenant(self, store: Store) -> None:
        store.save_key(Key("1", "hash-1", "t"))
        assert not store.revoke("u", "1")
        assert store.revoke("t", "1")
        assert not store.revoke("t", "1")
        found = store.key("hash-1")
        assert found
        assert found.revoked is not None
        assert store.keys("t") == [found]

    @pytest.mark.parametrize(
        "bad",
        [
            Key("2", "hash-1", "t"),
            Key("1", "hash-2", "t"),
            Key("", "hash-2", "t"),
            Key("2", "", "t"),
            Key("2", "hash-2", ""),
            Key("2", "hash-2", "t", ()),
        ],
    )
    def test_no_two_keys_are_alike_and_none_is_empty(self, store: Store, bad: Key) -> None:
        good = Key("1", "hash-1", "t")
        store.save_key(good)
        with pytest.raises(InputError):
            store.save_key(bad)
        assert store.keys() == [good]


class SpendContract:
    """Spends: changed several at a time and as one step, listed newest first."""

    def test_spends_begin_at_zero_and_are_kept(self, store: Store) -> None:
        first = store.amend_spends("t", BOTH, _add)
        assert [(row.scope, row.name, row.tokens) for row in first] == [
            ("session", "s", 1),
            ("tenant", "", 1),
        ]
        assert [row.tokens for row in store.amend_spends("t", BOTH[:1], _add)] == [2]
        assert [row.tokens for row in store.spends("t")] == [2, 1]
        assert [row.scope for row in store.spends("t", scope="tenant")] == ["tenant"]
        assert store.spends("t", limit=1)[0].scope == "session"
        assert store.spends("u") == []

    def test_no_spend_is_lost_between_writers(self, store: Store) -> None:
        def spend(_: int) -> None:
            for _step in range(10):
                store.amend_spends("t", BOTH, _add)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(spend, range(4)))
        assert [row.tokens for row in store.spends("t")] == [40, 40]

    def test_a_change_that_fails_changes_nothing(self, store: Store) -> None:
        store.amend_spends("t", BOTH, _add)

        def break_off(rows: list[Spend]) -> list[Spend]:
            raise KeyError(rows[0].name)

        with pytest.raises(KeyError):
            store.amend_spends("t", BOTH, break_off)
        assert [row.tokens for row in store.spends("t")] == [1, 1]

    def test_a_change_keeps_to_the_rows_it_was_given(self, store: Store) -> None:
        with pytest.raises(InputError):
            store.amend_spends("t", BOTH, lambda rows: rows[:1])
        with pytest.raises(InputError):
            store.amend_spends("t", BOTH, lambda rows: [replace(row, name="x") for row in rows])
        with pytest.raises(InputError):
            store.amend_spends("", BOTH, _add)
        assert store.spends("t") == []

    def test_sessions_that_were_idle_are_forgotten(self, store: Store) -> None:
        store.amend_spends("t", BOTH, _add)
        store.amend_spends("t", [("session", "new")], lambda rows: [replace(rows[0], last=9.0)])
        assert store.forget_spends("t", idle_since=5.0) == 1
        assert [(row.scope, row.name) for row in store.spends("t")] == [
            ("session", "new"),
            ("tenant", ""),
        ]
