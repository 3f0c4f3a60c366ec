"""Prices of the token estimate, fitted to the larger of two exact counts: cl100k and o200k.

`PAIRS` prices a character by the one before it: a letter costs more after a letter it seldom follows in English.
`CODES` prices a character beyond ASCII on top: by letter for the common alphabets, else by script. Han and Hangul come
at two prices: that of the few hundred characters that are one token each in cl100k, and that of the others, which are
two or three.
`python bench/fit_tokens.py` fits them anew.
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

# The characters that are one token of cl100k: their price, the first of them, and how far each is from the one before,
# as a character from "#" on; "~" is 91 further.
_ONE_TOKEN: tuple[tuple[int, str, str], ...] = (
    (
        33,
        "一",
        r"#*%$$%$(*%+)&(+$0$%7*C($%)*,&'$1(.$&+%.%*-$'%':%)I*)%'&'B/3)_'0BRC~;~<(@&'(%&$1$)$/~)$.4%'/%():q'$$*PS4$F"
        r"**)*%?6<?'&+$%'(%.*($&'$3'$$&8($&>1382X*~F,~~~+~;&%@$D,+-)nfOZ&ZVu7&),'0%+&b-(l~~~~<*$1F%$1'&$7&0V&-,%&@2"
        r"8?3~~~o*$/3$X^$%,3'$&2w)%0).V%026$*.:8%5M?-7W\@m3~~^$(D,.+N%83G[)%|/G6&K~~J~J*&($,K'657&,94(4;(/36P~M/+$'"
        r"5,%%1,?%'=(//lES$'/~@~~~s~~m@G$$$1e=(`)@1@AG==6v)Y4~EV{~~~~~7q~08~~~#$D3~~{K$v&~~~+,,'%'4A~~~#,p@)',-$6~~"
        r"3?~5~~9'M|/'$A.3%$T^t1*2E8)@X%:-3~~/+~HH%~~~~;$;(.')&&Z^@C~;%%*k~q~~Z,~G3~7~~~~~~~~)~~~~~~~#?~%~~'%-Y&%/4"
        r"@+3|_~~a&-%-'&&4+(&$*%(&'+~&~~/%$$)/.V1~2~~)~~()&17%N,,$*$%&53$+4($&S~#]8s~E%$%%~~~~~~~t2s%<8t/+2i($)N76-"
        r"5%~)$T,~&'~Y~J'.0*(~~f~~co~~~~~~~~~~~3",
    ),
    (
        23,
        "가",
        r"#'1-w?G0F8*~8~T+S~~~~~~i?~~~~~<4F?8*~~18b'~~-''S~~~~~~i?w\Z$~7~TC'+KC~PC4G~W~~-~T'~4$~S'~~-~~~~~~i'4+7b8*"
        r"CW~T~T4J$&~~~~~~e[[??+S?w8*'?W[''+/?''+$.$7*x&4*?[~T~~1'W~~~~~~~b~~U~~)~~~~~p~8w'~~~~;'~~~~~~~B''+/~~1?'W",
    ),
)
_FAR = 91  # "~"
LAST = 0x10000  # this and all code points beyond have one price


def one_token_codes(first: str, gaps: str) -> npt.NDArray[np.int64]:
    """The code points of characters that are one token each."""
    steps = np.frombuffer(gaps.encode(), np.uint8).astype(np.int64) - ord("#")
    codes: npt.NDArray[np.int64] = ord(first) + np.cumsum(steps)
    return codes[steps < _FAR]


def _price_codes() -> npt.NDArray[np.float32]:
    starts, prices = zip(*_SCRIPTS, strict=True)
    table = np.repeat(np.array(prices, np.float32), np.diff((*starts, LAST + 1)))
    for start, letters in _LETTERS:
        table[start : start + len(letters)] = [2 * _DIGITS.index(price) for price in letters]
    for price, first, gaps in _ONE_TOKEN:
        table[one_token_codes(first, gaps)] = price
    table[0xD800:0xE000] = table[LAST] / 2
    return table


PAIRS = _price_pairs()
"""From two neighboring bytes, read as one number, to the price of the second."""
CODES = _price_codes()
"""From a code point, at most `LAST`, to its price beside that of its pair; 0 for ASCII.

A half of a surrogate pair costs half of `LAST`.
"""
