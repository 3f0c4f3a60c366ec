"""Token counting: the estimate's promises, and its distance from the exact counter."""

import math
import random
import string
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import ConfigError
from millgate.text.tokens import RunningTokens, counter, estimate_all, estimate_tokens

ANYTHING = st.text(st.characters(), max_size=200)


@given(ANYTHING, ANYTHING)
def test_an_estimate_is_never_negative_and_grows_with_text(text, more):
    assert 0 <= estimate_tokens(text) <= estimate_tokens(text + more)


@given(ANYTHING, ANYTHING)
def test_pieces_together_cost_what_they_cost_apart_but_for_the_seam(left, right):
    apart = estimate_tokens(left) + estimate_tokens(right)
    assert abs(estimate_tokens(left + right) - apart) <= 3


@given(ANYTHING)
def test_the_running_estimate_ends_with_the_estimate(text):
    running = list(RunningTokens(text))
    assert len(running) == len(text) + 1
    assert math.ceil(round(running[-1], 6)) == estimate_tokens(text)
    assert running == sorted(running)


@given(st.lists(ANYTHING, max_size=80))
def test_many_texts_are_estimated_as_each_by_itself(texts):
    assert estimate_all(texts) == list(map(estimate_tokens, texts))


def test_long_texts_among_many_are_estimated_as_each_by_itself():
    texts = ["x" * 5000, "潮" * 70_000, "", "the tide " * 20_000, "?", "\U0001f600 tide"]
    assert estimate_all(texts) == list(map(estimate_tokens, texts))


def test_an_empty_text_costs_nothing_and_any_other_something():
    assert estimate_tokens("") == 0
    assert all(estimate_tokens(char) > 0 for char in " aé漢\x00\ud800")


TEXTS = {
    "english": "The gate keeps what is new and drops what the model has already seen in its window.",
    "chat": "Hey Mel! Good to see you! I'm swamped w/ the kids & work. What's up with you? :)",
    "code": "def add(left: int, right: int) -> int:\n    return left + right\n\n\nclass Gate:\n    open = True\n",
    "german": "Das Tor lässt durch, was neu ist, und hält zurück, was das Modell schon gesehen hat.",
    "spanish": "La compuerta deja pasar lo que es nuevo y retiene lo que el modelo ya ha visto.",
    "turkish": "Kapı yeni olanı içeri alır ve modelin daha önce gördüğü her şeyi dışarıda tutar.",
    "russian": "Шлюз пропускает новое и задерживает то, что модель уже видела в своём окне.",
    "greek": "Η πύλη αφήνει να περάσει ό,τι είναι νέο και κρατά έξω όσα έχει ήδη δει το μοντέλο.",
    "arabic": "تسمح البوابة بمرور ما هو جديد وتحجب ما رآه النموذج من قبل في نافذته.",
    "hindi": "द्वार नई बातों को भीतर आने देता है और जो मॉडल पहले देख चुका है उसे रोक लेता है।",
    "thai": "ประตูปล่อยให้สิ่งใหม่ผ่านเข้าไปและกันสิ่งที่แบบจำลองเห็นแล้วออกไป",
    "hebrew": "השער מכניס את מה שחדש ומשאיר בחוץ את מה שהמודל כבר ראה בחלון שלו.",
    "polish": "Brama przepuszcza to, co nowe, i zatrzymuje to, co model widział już w swoim oknie.",
    "korean": "문은 새로운 것을 들여보내고 모델이 이미 본 것은 막아 둔다.",
    "japanese": "門は新しいものを通し、モデルがすでに見たものは通さない。",
    "chinese": "闸门决定多少水进入渠道，模型已经看到的内容不再重复。",
    "traditional chinese": "閘門決定多少水進入渠道，模型已經看到的內容不再重複顯示。",
    "vietnamese": "Cánh cổng cho những điều mới đi qua và giữ lại những gì mô hình đã thấy.",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_bounds_the_larger_of_two_counts_and_is_near_it(kind):
    text = "\n".join([TEXTS[kind]] * 8)
    exact = max(counter(name)(text) for name in ("cl100k_base", "o200k_base"))
    # one sentence over and over: what is wrong with it does not average out
    assert 0.95 * exact <= estimate_tokens(text) <= 1.4 * exact


def test_a_character_that_is_one_token_costs_about_one():
    for common, rare in (("的是不一", "鬱龜麤靐"), ("가나다라", "뷁쀓뚫쯤")):
        exact = counter("cl100k_base")
        assert exact(common) == 4 < exact(rare)
        assert estimate_tokens(common * 50) <= 1.1 * 200 < estimate_tokens(rare * 50)


def test_a_composed_and_a_decomposed_text_are_both_bounded():
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, TEXTS["vietnamese"]) * 8
        exact = max(counter(name)(text) for name in ("cl100k_base", "o200k_base"))
        # one sentence over and over: what is wrong with it does not average out
        assert 0.95 * exact <= estimate_tokens(text) <= 1.4 * exact


RANDOM = {
    "letters": string.ascii_lowercase,
    "digits": string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "sequence": "ACGT",
    "emoji": "😀😂🎉👍🔥🙏",
    "invisible": "\u200b\u200c\u200d\u202e\u2066",
    "control": "\x01\x02\x0e\x1b\x7f",
}


@pytest.mark.parametrize("kind", RANDOM)
def test_characters_in_no_order_are_dearer_than_words(kind):
    noise = "".join(random.Random(3).choices(RANDOM[kind], k=2000))
    assert 0.75 * counter("cl100k_base")(noise) <= estimate_tokens(noise)


@pytest.mark.parametrize(
    "text", ["x" * 10**6, "a1" * 10**5, "\n" * 10**5, "😀" * 10**5, "a\u0301\u0302" * 10**5]
)
def test_text_without_end_is_estimated_all_the_same(text):
    assert 0 < estimate_tokens(text) <= 4 * len(text)


def test_the_exact_counter_survives_lone_surrogates():
    assert counter("o200k_base")("a\ud800b") > 0


def test_an_unknown_counter_is_refused_by_name():
    with pytest.raises(ConfigError, match="gpt9"):
        counter("gpt9")


def test_a_long_text_is_counted_in_pieces_as_it_is_as_a_whole():
    text = "a 漢字 é😀, " * 80_000
    assert len(text) > 600_000
    running = RunningTokens(text)
    assert estimate_tokens(text) == math.ceil(running[len(text)])
    apart = [estimate_tokens(text[:n]) for n in (65_535, 65_536, 65_537, 131_072, 500_000)]
    assert apart == [math.ceil(running[n]) for n in (65_535, 65_536, 65_537, 131_072, 500_000)]


@pytest.mark.parametrize("most", [0, 1, 7.5, 40_000, 70_000, 10**9])
@pytest.mark.parametrize("length", [0, 5, 65_536, 131_072, 300_001])
def test_what_a_number_of_tokens_reaches_is_the_last_beginning_that_fits(most, length):
    text = ("a 漢字 é😀, " * 40_000)[:length]
    running = RunningTokens(text)
    for start in {0, length // 3, length}:
        reached = running.reach(start, most)
        assert running[reached] - running[start] <= most
        assert reached == length or running[reached + 1] - running[start] > most


def test_of_a_long_text_only_a_part_of_the_running_estimate_is_held():
    text = "The tide turns at noon. " * 200_000
    tracemalloc.start()
    try:
        running = RunningTokens(text)
        assert running[len(text)] > running[len(text) // 2] > running[0] == 0
        assert tracemalloc.get_traced_memory()[1] < len(text)
    finally:
        tracemalloc.stop()


def test_a_long_text_is_counted_in_little_memory():
    text = "漢" * 2_000_000
    estimate_tokens("漢")
    tracemalloc.start()
    try:
        estimate_tokens(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
