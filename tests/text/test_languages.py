"""Languages: told apart by small words and letters, one sentence each; what speaks for none is English."""

import pytest
import Stemmer

from millgate.text.languages import LANGUAGES, choose, detect_all, likeness_to_code, symbols
from millgate.text.stopwords import ENGLISH, SPACED, stopwords
from millgate.text.terms import terms

SENTENCES = {
    "arabic": "هذا هو الكتاب الذي كان على الطاولة في البيت",
    "armenian": "Սա այն գիրքն է, որը սեղանի վրա էր",
    "bulgarian": "Това е книгата, която беше на масата в къщата",
    "catalan": "Aquest és el llibre que era damunt de la taula amb els altres",
    "czech": "To je ta kniha, která byla na stole, ale už není",
    "danish": "Det er den bog, som lå på bordet, men jeg kan ikke finde den",
    "dutch": "Dit is het boek dat op de tafel lag, maar ik kan het niet vinden",
    "english": "This is the book that was on the table in the house",
    "finnish": "Tämä on se kirja, joka oli pöydällä, mutta en löydä sitä",
    "french": "C'est le livre qui était sur la table dans la maison avec les autres",
    "german": "Das ist das Buch, das auf dem Tisch lag, aber ich finde es nicht",
    "greek": "Αυτό είναι το βιβλίο που ήταν πάνω στο τραπέζι",
    "hebrew": "זה הספר שהיה על השולחן בבית",
    "hindi": "यह वह किताब है जो मेज पर थी और अब नहीं है",
    "hungarian": "Ez az a könyv, amely az asztalon volt, de már nincs ott",
    "indonesian": "Ini adalah buku yang ada di atas meja dan tidak dapat saya temukan",
    "italian": "Questo è il libro che era sul tavolo della casa con gli altri",
    "lithuanian": "Tai yra knyga, kuri buvo ant stalo, bet aš jos nerandu",
    "persian": "این کتابی است که روی میز بود و من آن را پیدا نمی‌کنم",
    "polish": "To jest książka, która była na stole, ale już jej nie ma",
    "portuguese": "Este é o livro que estava sobre a mesa e que não encontro mais",
    "romanian": "Aceasta este cartea care era pe masă și pe care nu o mai găsesc",
    "russian": "Это та книга, которая была на столе, но её больше нет",
    "serbian": "Ово је књига која је била на столу, али је више нема",
    "spanish": "Este es el libro que estaba sobre la mesa y que ya no encuentro",
    "swedish": "Det är den bok som låg på bordet, men jag kan inte hitta den",
    "tamil": "இது மேசையின் மீது இருந்த ஒரு புத்தகம்",
    "turkish": "Bu masanın üzerinde olan kitap ama şimdi onu bulamıyorum",
    "ukrainian": "Це та книга, яка була на столі, але її більше немає",
    "urdu": "یہ وہ کتاب ہے جو میز پر تھی اور اب نہیں ہے",
    "vietnamese": "Đây là cuốn sách đã ở trên bàn nhưng bây giờ tôi không tìm thấy",
}


def detect(text):
    return detect_all([text])[0]


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_tells_its_language(language):
    assert detect(SENTENCES[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "def read(path): return open(path).read()",
        '{"name": "get_weather", "type": "dict", "required": ["city"]}',
        "Okay.",
        "Los Angeles, San Francisco, Las Vegas",
        "这是桌子上的书",
        "これは机の上にあった本です",
        "이것은 책상 위에 있던 책이다",
        "นี่คือหนังสือที่อยู่บนโต๊ะ",
        "ეს არის წიგნი",
        "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=",
    ],
)
def test_what_speaks_for_no_language_is_read_as_english(text):
    assert detect(text) == "english"


def test_every_stemmer_has_a_language_but_the_doubles():
    doubles = {"porter", "dutch_porter"}
    assert set(Stemmer.algorithms()) - doubles <= set(LANGUAGES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_function_words(language):
    assert len(stopwords(language)) >= 5
    assert language in SPACED


def test_english_has_its_own_list():
    assert stopwords("english") is ENGLISH


def test_of_several_languages_a_text_takes_its_own():
    assert choose(SENTENCES["german"], "english+german") == "german"
    assert choose(SENTENCES["english"], "german+english") == "english"


def test_a_text_in_none_of_the_languages_takes_the_first():
    assert choose(SENTENCES["russian"], "german+english") == "german"
    assert choose("Bundesliga 2023", "german+english") == "german"


def test_of_languages_with_as_many_votes_the_most_written_wins():
    assert detect("удаляет группу") == "russian"
    assert detect("índice útil") == "spanish"


def test_of_languages_with_as_many_votes_a_query_takes_the_commonest_of_the_collection():
    assert choose("удаляет группу", "russian+english+bulgarian") == "russian"
    assert choose("удаляет группу", "bulgarian+russian") == "bulgarian"


def test_a_word_that_both_have_does_not_make_a_query_english():
    assert choose("koppeling in bestanden", "dutch+english") == "dutch"
    assert choose("links in the files", "dutch+english") == "english"


def test_terms_of_a_mixed_collection_meet_whatever_language_asks():
    both = "english+german"
    assert terms("Welche Häuser sind die ältesten?", both) == terms("Häuser ältesten", "german")
    assert terms("Which are the oldest houses?", both) == terms("oldest houses", "english")


def test_signs_that_are_no_letters_do_not_change_the_language():
    for text in SENTENCES.values():
        quoted = "“" + text.replace(" ", " – ", 1) + "” €5 → √2"
        assert detect(quoted) == detect(text)


def test_many_texts_have_the_languages_that_each_has_alone():
    texts = [
        "The harbor master said that the tide was late.",
        "Der Hafenmeister sagte, dass die Flut nicht für alle kam.",
        "Паром отходит в шесть часов, но прилив ещё не пришёл.",
        "潮は六時に来る。",
        "",
        "x = 1\nreturn x",
        "El puerto está cerrado y la marea no llegó todavía.",
    ]
    alone = [detect(text) for text in texts]
    assert detect_all(texts) == alone
    assert alone == ["english", "german", "russian", "english", "english", "english", "spanish"]


def test_letters_beyond_ascii_speak_for_others_and_a_soft_hyphen_parts_no_word():
    assert detect("señor y más") == "spanish"
    assert detect("“The tide” — the harbor’s — was late.") == "english"
    assert detect("ni\xadcht ei\xadne d\xader wir") == detect("nicht eine der wir") == "german"
    assert detect("the quay and the tide, voilà") == "english"


PROSE = "The harbor of Quito was restored, they say."
CODE = "def load(path):\n    with path.open() as file:\n        return parse(file.read())"
JSON = '{"name": "a", "parameters": {"type": "object"}}'


def test_symbols_tell_code_from_prose():
    assert symbols([JSON]) > symbols([CODE]) > 0.06
    assert symbols([PROSE]) == 0
    assert symbols([]) == symbols([""]) == 0


def test_json_is_altogether_like_code_and_prose_is_not():
    assert likeness_to_code([JSON]) == 1
    assert likeness_to_code([PROSE]) == likeness_to_code([]) == 0
    assert 0 < likeness_to_code([PROSE * 3, CODE]) < 1
