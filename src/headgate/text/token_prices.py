"""Prices of the token estimate, fitted to the larger of two exact counts: cl100k and o200k.

`PAIRS` prices a character by the one before it: a letter costs more after a letter it seldom follows in English.
`CODES` prices a character beyond ASCII on top: by letter for the common alphabets, else by script. Han and Hangul come
at two prices: that of the few hundred characters that are one token each in cl100k, and that of the others, which are
two or three.
`make bench-fit_tokens` fits them anew.
"""

import string

import numpy as np
import numpy.typing as npt

# Prices are whole numbers of a fortieth of a token, so sums are exact, whatever their order. In the tables a price is
# one character.
UNITS = 40
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase

# Kinds of characters: blank, the letters, digit, mark, end of line, and all beyond ASCII, for which "?" stands.
_BLANK, _DIGIT, _MARK, _LINE, _BEYOND = 0, 27, 28, 29, 30


def _kind(code: int) -> int:
    char = chr(code)
    if char.isalpha():
        return 1 + string.ascii_lowercase.index(char.lower())
    if char.isdigit():
        return _DIGIT
    if char == "?":
        return _BEYOND
    return _LINE if char == "\n" else _BLANK if char.isspace() or char == "\0" else _MARK


# The price of a character after another: a row for each kind of the first, in the order above, and a column for each
# kind of the second.
_ROWS = (
    "1UUUUYUVUUUbUUUUUzUUUUjUpUszdzQ",
    "Ez222MU296Yt272h2c222622X2P8zz2",
    "G2eLP2TQP39V2UX2VYZDP2SPW2Tsgm2",
    "02V2P2ST22O22TU2ZV2222XPREQ9O71",
    "0ADG2CNSP2NQP2MFfWmBe2QPOCMLOB1",
    "02C2222KekNwD2522222HX2222fROn3",
    "02aOW22aU2UOHVP2QO2Q25YMQMRAOz2",
    "0OSVb2Zl24ZOSK28HTAFX2YURESzO92",
    "02LKR2SRS2XQOO62IN292foXQdMzOz1",
    "gE222624cUrME2222O222Z2WkU5zrz9",
    "JaPSX2QQVPSUdORXQUUXQJUPWUXzzz1",
    "02VMY9Tcn6TaVRIeYSqVNaTROfUzOz4",
    "07ZL222dV2jk2XN26TQ2E2IOT2VlOF1",
    "322YO2YYV2QV2Kb22MT2T2WTOGSzTk8",
    "04U22222f5PJ5MaDIVc22CAVL2YAOP1",
    "1F222n2JQYL2A2222O292222AJZzzz1",
    "32OSI2XJ29QT2OP26R2222OPK2SXO7B",
    "IWUSRSRRMSTRKQWORTWQQ9TUPRSzdz4",
    "02k942G2k2e3R322QR222I2KU2YzOzK",
    "0XQGO2UN22YSNId22IR222P2R2tXO71",
    "04WFR29S22WK45U22T22N2Y2J2S8OW1",
    "0463J2X2VGXu232o2W222bZbYQQczz2",
    "L3UXT2OPQ2OSNQYNPSZaVVYSNZT8Sz7",
    "02PQH2YO22POLP22SRB2SSRFSVSzOY1",
    "F7VPQ2QXF8QTQMQQ2QVj2TUSOLJ8Oj2",
    "0WOUL5QZYOPfdPg22MT2ATQMaXJsO72",
    "LcZZW2SRzgQUSJYMVQYeVRSTTXizzz2",
    "3znqtazzzzzzzzzzYzzXzzzzbzzDbzC",
    "0TC44C7444HE44zW94444B444ukYE74",
    "TliUcZnczuUtoeyUizaUUYzUUVzod31",
    "6HN22M2222bE972H4B2EGT23628me70",
)
_CAPITAL = 5  # what a capital costs more
_MARKS = "450D10DE00J01000000841K12001C15"  # what each mark but "?" costs more, by its code


def _price_pairs() -> npt.NDArray[np.float32]:
    prices = np.array([[_DIGITS.index(price) for price in row] for row in _ROWS], np.float32)
    kinds = np.array([_kind(code) for code in range(128)])
    table = prices[kinds][:, kinds]
    table[:, list(string.ascii_uppercase.encode())] += _CAPITAL
    table[:, list(string.punctuation.replace("?", "").encode())] += [
        _DIGITS.index(price) for price in _MARKS
    ]
    table[:, [*range(1, 9), *range(14, 32), 127]] = UNITS  # control characters are a token each
    return np.hstack([table.T, np.zeros_like(table)]).ravel()


# The price of a character beyond ASCII, from this code point on.
_SCRIPTS: tuple[tuple[int, int], ...] = (
    (0x0, 0),
    (0x80, 50),  # signs of Latin-1
    (0x180, 67),
    (0x250, 121),  # phonetic
    (0x300, 92),  # combining
    (0x370, 39),
    (0x460, 75),
    (0x530, 90),  # Armenian
    (0x590, 76),  # Hebrew points
    (0x600, 52),
    (0x700, 84),
    (0x970, 38),
    (0x980, 54),  # Bengali
    (0xA00, 77),  # Gurmukhi
    (0xA80, 78),  # Gujarati
    (0xB00, 84),  # Odia
    (0xB80, 55),  # Tamil
    (0xC00, 80),  # Telugu
    (0xC80, 80),  # Kannada
    (0xD00, 72),  # Malayalam
    (0xD80, 84),  # Sinhala
    (0xE50, 54),
    (0xE80, 101),  # Lao
    (0xF00, 84),  # Tibetan
    (0x1000, 85),  # Burmese
    (0x10A0, 109),  # Georgian
    (0x1100, 74),  # Hangul parts
    (0x1200, 122),  # Ethiopic
    (0x1380, 84),
    (0x1780, 69),  # Khmer
    (0x1800, 70),
    (0x1E00, 41),  # Latin of Vietnamese
    (0x1F00, 121),  # Greek, ancient
    (0x2000, 19),  # punctuation
    (0x200B, 72),  # zero-width signs
    (0x2010, 16),  # dashes and quotes
    (0x202A, 81),  # signs of direction
    (0x2030, 16),
    (0x2060, 80),  # invisible signs
    (0x2070, 75),  # symbols, arrows, boxes
    (0x2C00, 84),
    (0x3000, 32),  # punctuation of East Asia
    (0x3100, 71),
    (0x3400, 120),  # Han, rare
    (0x4E00, 108),  # Han
    (0xA000, 84),
    (0xAC00, 92),  # Hangul
    (0xD7B0, 122),
    (0xF900, 32),  # full and half width
    (0x10000, 94),  # emoji and all beyond
)

# The price of each letter from this code point on, in twentieths of a token.
_LETTERS: tuple[tuple[int, str], ...] = (
    (0xC0, "f8Li33zAzczjfc3jEFfzzxq73zzv3MKJ3ES3QMzNNIBzUOB3Az3MM3LzkgDZUb37"),  # Latin: À to ÿ
    (  # Ā to ſ
        0x100,
        "nIScH3zJllllnPOuQ3mHaanms3OLllkillnnllYtmGnOaYnmOGaallmmlOOmmibaaz6BvmmOzalUmJaa"
        "3SHEOOnnHXzEllDRzXOIrfllpEnLllOFPUnmmmmmPQGL3XSa",
    ),
    (0x384, "ffzaVigaWadffgnzyemVzNsecNfPXlawY3zOhHddCYG5fANN9HdPEBNJRCkEfQaEL7YHMTUd9Yb"),  # Greek
    (  # Cyrillic
        0x400,
        "aqMlvkqpvuoooack3zOzJkz33MLzfeH3M33zzzo3l3q33zz83N3rV3336GM33933363J3Nj3zV335O43"
        "azilyecCzkkokask",
    ),
    (0x5D0, "CCZGIMWHbIMeKSDVBXSTaZTbLFN"),  # Hebrew
    (
        0x620,
        "aJI3zcH4McKYRMD3a4K3HCJ3TNYaaaaaz5WW3HJ5NAEavvMNN9Nanbaaaaaaaaaannnnnnnnnnzaaaaa",
    ),  # Arabic
    (  # Devanagari
        0x900,
        "azNdaZXSZrfbaaaQQeaNhB6LKaQfUYckJdfaTeYa7aKybHEPDZ8aaajF96aaZaPIROmRaEaMaLaQQBaa"
        "aaaaaaaakaaZbdZaaaaaZaONLLMNNNNN",
    ),
    (
        0xE00,
        "aEFbEbfJKiIhbZdghYfJQMILwKFGJUNWhIPGcMbJXkKNbGcaJODPQIhDKJbaaaabMKkJHbXLHIZcNbbb",
    ),  # Thai
    (  # Hiragana and Katakana
        0x3040,
        "acSaIYFcCcBVJATKWOyJFPH5I5EgfKlP6Va6TfKSZSaJlVGKFaQpaZUahFbiVX3cNEMhZYXI8C6IBQaQ"
        "aaHOaaaaaaZaaaaaaEQOcbCINXH7P7WEHzc55SHKO9FJeKkaC6aVxaDQ4QFRZyWypKSDNFTGB9GhCMFD"
        "8Ci7aMYIaA4LGXYzaaaMaaYaaaaHJZZa",
    ),
)

# The characters that are one token of cl100k, and their price.
_ONE_TOKEN: tuple[tuple[int, str], ...] = (
    (
        33,
        "一万三上下不与专业东两个中串为主么义之也书了事二于五些交产享京人亿今介从他付代以们件价任份企优会传但位体何余作"
        "你使例供価保信修倍值停像元先入全公共关其具内円册再写出击分列则初利别到制前力功加务动動包化北区十午华单南即历原"
        "去县参及友反发取变口只可台右号司合同名后向否含听启告员周命和品哈商問器四回因国图土在地场址型城基報場填增声处备"
        "复外多大天失头女好如始子字存学安宋完定实审客家容密对导将小少尔就局展山岁州工左已市布常平年并广序库应店度建开异"
        "式引张当录形影径待後得微心必志态思性总息您情意感成我或户所手打找技投报拉持指按换据排接推提播支收改放政效数整文"
        "料断新方族无日时明易星是時景更最月有服期木未本机权束条来板构析果查标样核格案检模次款止正此步歳段每比民気水求江"
        "汽没治法注活流海消清游源火点無然片版物特率环现球理生用由电男画界番登的监目直相省看県真知码确示社票私种科秒称移"
        "程稍税稿空立站章端笑符第等签简算管箱米类系素索约级线组经结给络统编网置美老考者而联能自至色节英藏行表装西要見见"
        "规视角解言計記話読计认议记论设证评试话询该详语误说请读调象责败账货购费资起超路身车转软载辑输达过运近还这进连述"
        "退送选通速造連道邮部都配释里重量金钟钮链销错键长開間関门闭问间队阳陆限院除雅集雷需非面音页项预频题额首验高黑",
    ),
    (
        23,
        "가간값개거게결경고공과구그글기나내는능니다당대도동되된드든들디라래러력로록료류른를름리만메면명목문미버번보복부"
        "분비사산상색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자작장재적전정제져조주지진"
        "째체출치크태터턴트튼하한할함해호화환회",
    ),
)
LAST = 0x10000  # this and all code points beyond have one price


def _price_codes() -> npt.NDArray[np.float32]:
    starts, prices = zip(*_SCRIPTS, strict=True)
    table = np.repeat(np.array(prices, np.float32), np.diff((*starts, LAST + 1)))
    for start, letters in _LETTERS:
        table[start : start + len(letters)] = [2 * _DIGITS.index(price) for price in letters]
    for price, chars in _ONE_TOKEN:
        table[list(map(ord, chars))] = price
    table[0xD800:0xE000] = table[LAST] / 2
    return table


PAIRS = _price_pairs()
"""From two neighboring bytes, read as one number, to the price of the second."""
CODES = _price_codes()
"""From a code point, at most `LAST`, to its price beside that of its pair; 0 for ASCII.

A half of a surrogate pair costs half of `LAST`.
"""
