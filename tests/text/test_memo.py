"""A memo answers for every word, remembers those in use, and never holds more than its room."""

from concurrent.futures import ThreadPoolExecutor

from headgate.text import memo as module
from headgate.text.memo import LONGEST, Generations, Memo, NumberTable, Room


class Reader:
    """Counts how often a word is read."""

    def __init__(self):
        self.read = []

    def __call__(self, word):
        self.read.append(word)
        return len(word)


def held(*memos):
    return sum(len(memo) + len(memo._old) for memo in memos)


def test_a_word_is_read_once():
    reader = Reader()
    memo = Memo(reader, Room(10))
    assert [memo["tide"], memo["tide"], memo["pier"]] == [4, 4, 4]
    assert reader.read == ["tide", "pier"]


def test_only_things_whose_keys_are_new_are_worked_out_each_once_and_together():
    memo, worked = Generations[int, str](Room(10)), []

    def work(things):
        worked.append(things)
        return map(str.upper, things)

    assert memo.read([1, 2, 1], ["a", "b", "a"], work) == ["A", "B", "A"]
    assert memo.read([3, 2], ["c", "b"], work) == ["C", "B"]
    assert memo.read([1, 3], ["a", "c"], work) == ["A", "C"]
    assert worked == [["a", "b"], ["c"]]


def test_words_without_end_fill_the_room_and_no_more():
    memo = Memo(Reader(), Room(100))
    for n in range(10_000):
        assert memo[f"w{n}"] == len(f"w{n}")
        assert held(memo) <= 100


def test_a_word_in_use_stays_while_others_come_and_go():
    reader = Reader()
    memo = Memo(reader, Room(100))
    for n in range(1_000):
        memo["tide"], memo[f"w{n}"]
    assert reader.read.count("tide") == 1


def test_a_word_that_nobody_asks_for_is_forgotten():
    reader = Reader()
    memo = Memo(reader, Room(10))
    for word in ("tide", *(f"w{n}" for n in range(20)), "tide"):
        memo[word]
    assert reader.read.count("tide") == 2


def test_memos_of_one_room_share_it():
    room = Room(100)
    many, few = Memo(Reader(), room), Memo(Reader(), room)
    few["tide"]
    for n in range(1_000):
        many[f"w{n}"]
        assert held(many, few) <= 100
    assert held(few) == 0


def test_a_long_word_is_read_and_not_remembered():
    reader = Reader()
    memo = Memo(reader, Room(10))
    word = "x" * (LONGEST + 1)
    assert [memo[word], memo[word]] == [LONGEST + 1] * 2
    assert len(reader.read) == 2
    assert held(memo) == 0


def test_threads_that_ask_at_once_get_the_same_answers():
    memo = Memo(len, Room(64))
    words = [f"word{n % 500}" for n in range(20_000)]

    def ask(_):
        return [memo[word] for word in words]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == [len(word) for word in words] for found in pool.map(ask, range(4)))


def test_what_was_worked_out_elsewhere_is_remembered_and_recalled_but_no_long_words():
    reader = Reader()
    memo = Memo(reader, Room(10))
    memo.remember({"tide": 40, "x" * (LONGEST + 1): 1})
    assert memo.recall({"tide", "pier"}) == ({"tide": 40}, {"pier"})
    assert (memo["tide"], len(memo)) == (40, 1)
    assert not reader.read


def test_an_old_word_that_is_recalled_stays():
    memo = Memo(Reader(), Room(10))
    memo.remember({"tide": 40})
    memo.age()
    assert memo.recall(["tide"])[0] == {"tide": 40}
    memo.age()
    assert memo.recall(["tide"])[0] == {"tide": 40}


def test_what_was_worked_out_is_found_again_until_nobody_asked_for_it():
    known = Generations(Room(10))
    known.remember({1: "one", 2: "two"})
    for n in range(100, 120):
        assert known.find(1) == "one"
        known.remember({n: "x"})
    assert known.find(2) is None
    assert known.recall([1, 2, 119]) == ({1: "one", 119: "x"}, {2})
    assert held(known) <= 10


def test_years_and_amounts_are_remembered_and_the_numbers_of_orders_are_not():
    reader = Reader()
    memo = Memo(reader, Room(10))
    for word in ("2024", "2024", "199900", "199900", "4711081500", "4711081500"):
        memo[word]
    assert reader.read == ["2024", "199900", "4711081500", "4711081500"]


def test_many_words_at_once_fill_the_room_and_no_more():
    memo = Memo(Reader(), Room(100))
    for n in range(0, 2_000, 40):
        memo.remember({f"w{n + k}": 2 for k in range(40)})
        assert f"w{n}" in memo.recall([f"w{n}"])[0]
        assert held(memo) <= 100
    memo.remember({f"v{n}": 2 for n in range(1_000)})
    assert 50 < held(memo) <= 100


def read_numbers(words):
    return {word: 7 * len(word) + ord(word[0]) for word in words}


def test_the_numbers_of_words_are_read_once():
    table, asked = NumberTable(), []

    def read(words):
        asked.append(words)
        return read_numbers(words)

    for _ in range(2):
        found = table.of(["tide", "quay", "tide"], read, kind=0)
        assert found.tolist() == [144, 141, 144]
    assert asked == [{"tide", "quay"}]
    table.of(["tide"], read, kind=2)
    assert asked[1:] == [{"tide"}]
    assert table.of([], read, kind=0).tolist() == []


def test_words_of_the_same_bytes_have_their_own_numbers():
    words = ["hc", "来", chr(0x6368), "abcd", "扡摣"]
    assert hash("hc") == hash(chr(0x6368))
    table, expected = NumberTable(), list(read_numbers(words).values())
    for _ in range(2):
        assert [table.of([w], read_numbers, kind=3).tolist()[0] for w in words] == expected


def test_a_full_table_forgets_words_and_mistakes_none(monkeypatch):
    monkeypatch.setattr(module, "_PLACE_BITS", 3)
    table, words = NumberTable(), [f"{n} tides" for n in range(200)]
    for begin in range(0, 200, 30):
        some = words[begin : begin + 50] + words[:5]
        expected = list(map(read_numbers(some).__getitem__, some))
        assert table.of(some, read_numbers, kind=0).tolist() == expected
