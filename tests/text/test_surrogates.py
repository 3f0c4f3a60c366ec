"""Half of a surrogate pair is replaced; every other character stays."""

from headgate.text.surrogates import replace_surrogates


def test_half_a_pair_is_replaced_and_all_else_stays():
    assert replace_surrogates("plain") == "plain"
    assert replace_surrogates("ü😀\ud83d!\udcff") == "ü😀\ufffd!\ufffd"
    assert replace_surrogates("ok\udcff").encode() == "ok\ufffd".encode()
