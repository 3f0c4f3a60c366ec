"""KeyContract: what every store promises about API keys."""

import pytest

from headgate.errors import InputError
from headgate.protocols import Store
from headgate.types import Key


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
