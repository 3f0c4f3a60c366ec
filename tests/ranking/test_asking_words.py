"""Asking words: every language has them, and where no spaces are written they leave only what is asked about."""

import pytest

from millgate.ranking.question import REQUESTS, UNSPACED_REQUESTS, asking_terms
from millgate.text.languages import LANGUAGES
from millgate.text.terms import terms

# who, what, when, where, why, how
ASKING = {
    "arabic": "من ماذا متى أين لماذا كيف",
    "armenian": "ով ինչ երբ որտեղ ինչու ինչպես",
    "basque": "nor zer noiz non zergatik nola",
    "bengali": "কে কী কখন কোথায় কেন কীভাবে",
    "bulgarian": "кой какво кога къде защо как",
    "catalan": "qui què quan on com quants",
    "czech": "kdo co kdy kde proč jak",
    "danish": "hvem hvad hvornår hvor hvorfor hvordan",
    "dutch": "wie wat wanneer waar waarom hoe",
    "english": "who what when where why how",
    "esperanto": "kiu kio kiam kie kial kiel",
    "estonian": "kes mis millal kus miks kuidas",
    "finnish": "kuka mitä milloin missä miksi miten",
    "french": "qui quoi quand où pourquoi comment",
    "german": "wer was wann wo warum wie",
    "greek": "ποιος τι πότε πού γιατί πώς",
    "hebrew": "מי מה מתי איפה מדוע כיצד",
    "hindi": "कौन क्या कब कहाँ क्यों कैसे",
    "hungarian": "ki mi mikor hol miért hogyan",
    "indonesian": "siapa apa kapan mana mengapa bagaimana",
    "irish": "cé cad cathain cá conas",
    "italian": "chi cosa quando dove perché come",
    "latvian": "kas kad kur kāpēc kā cik",
    "lithuanian": "kas kada kur kodėl kaip kiek",
    "marathi": "कोण काय केव्हा कुठे का कसे",
    "nepali": "को के कहिले कहाँ किन कसरी",
    "norwegian": "hvem hva når hvor hvorfor hvordan",
    "persian": "چه کجا کدام چرا چگونه کیست",
    "polish": "kto co kiedy gdzie dlaczego jak",
    "portuguese": "quem que quando onde qual como",
    "romanian": "cine ce când unde care cum",
    "russian": "кто что когда где почему как",
    "serbian": "ко шта када где зашто како tko što kada gdje zašto kako",
    "sesotho": "mang eng neng kae hobaneng jwang",
    "slovak": "kto čo kedy kde prečo ako",
    "slovenian": "kdo kaj kdaj kje zakaj kako",
    "spanish": "quién qué cuándo dónde cuál cómo",
    "swedish": "vem vad när var varför hur",
    "tamil": "யார் என்ன எப்போது எங்கே ஏன் எப்படி",
    "turkish": "kim ne nerede neden nasıl kaç",
    "ukrainian": "хто що коли де чому як",
    "urdu": "کون کیا کب کہاں کیوں کیسے",
    "vietnamese": "ai gì nào đâu sao mấy",
    "yiddish": "ווער וואָס ווען וווּ פֿאַרוואָס ווי",
}


def named(query, language="english"):
    """The terms of a query that name something."""
    asking = asking_terms(query, language)
    return [key for key in terms(query, language) if key not in asking]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_question_word_is_no_term_in_any_language(language):
    assert terms(ASKING[language], language) == []


@pytest.mark.parametrize("language", REQUESTS)
def test_a_request_only_asks(language):
    requests = REQUESTS[language].split()
    assert len(requests) >= 8
    assert not named(f"{requests[0]} {requests[-1]}", language)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("纤毛是用来做什么的？", "纤毛"),
        ("纖毛是什麼？", "纖毛"),
        ("誰がピアノを発明しましたか", "ピアノ"),
        ("판다란 무엇입니까", "판다"),
        ("ไวรัสคืออะไร", "ไวรัส"),
        ("ໄວຣັດແມ່ນຫຍັງ", "ໄວຣັດ"),
        ("តើវីរុសជាអ្វី", "វីរុស"),
        ("ဗိုင်းရပ်စ်သည်ဘာလဲ", "ဗိုင်းရပ်စ်"),
    ],
)
def test_without_spaces_what_is_asked_about_is_left(query, name):
    left = named(query)
    assert {*left} >= {*terms(name)}
    # a particle that is no asking word may stay at the name's side
    assert len(left) < len(terms(query))


def test_a_script_without_spaces_needs_no_space_around_its_words():
    assert named("什么是纤毛") == named("纤毛") == terms("纤毛")


def test_every_unspaced_script_has_asking_words():
    assert all(len(words.split()) >= 10 for words in UNSPACED_REQUESTS.values())


def test_a_query_of_asking_words_alone_asks_with_all_of_them():
    assert asking_terms("please explain", "english") >= {*terms("please explain")}
