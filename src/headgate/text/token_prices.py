"""Prices of the token estimate, fitted to the larger of two exact counts: cl100k and o200k.

`PAIRS` prices a byte by the byte before it: a letter costs more after a letter it seldom follows in English. `CODES`
prices a character beyond ASCII on top: by letter for the common alphabets, else by script. Han and Hangul come at two
prices: that of the few hundred characters that are one token each in cl100k, and that of the others, which are two or
three. Fitted by least squares to the relative error, an estimate that is too low counting threefold, with every price
held between a floor above zero and its ceiling and drawn to what is usual for its kind. The texts are the seventeen
labeled sets, code and configuration, manuals and declarations in many languages, sentences drawn from word frequencies
of forty languages, and random hexadecimal and base64 text, so that letters in no language's order are dear. `python
bench/fit_tokens.py` fits them anew.
"""

import string

import numpy as np
import numpy.typing as npt

# Prices are whole numbers of a fortieth of a token, so sums are exact, whatever their order. In the tables a price is
# one character.
UNITS = 40
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase

# Kinds of bytes: blank, the letters, digit, mark, end of line, and all bytes beyond ASCII.
_BLANK, _DIGIT, _MARK, _LINE, _BEYOND = 0, 27, 28, 29, 30


def _kind(byte: int) -> int:
    char = chr(byte)
    if byte >= 0x80:
        return _BEYOND
    if char.isalpha():
        return 1 + string.ascii_lowercase.index(char.lower())
    if char.isdigit():
        return _DIGIT
    return _LINE if char == "\n" else _BLANK if char.isspace() or char == "\0" else _MARK


# The price of a byte after another, a row for each kind of the first and a column for each kind of the second.
_ROWS = (
    "1UUUXUUbWUUcXUUUUwUUUZkUzUzzloE",  # blank
    "Pw111Q1111Ma1A1W8N11181111IHyz1",  # a
    "56Q85LBC8B191AC1DBJ161DAC1FWZJ5",  # b
    "41F191AC42911BF1NE11119A9DPCoU4",  # c
    "011A1363Q1E194KDK7F348BD9AQvSJ4",  # d
    "01e1111SVmCzD4713141Ff9111UkSk4",  # e
    "01FCD71EF19A1K91B65B1497919nXS3",  # f
    "0GD9F8BR11D8RG1758G393CAA1AzSE5",  # g
    "0569E1897181MA11B81216gN7A9zSl5",  # h
    "M1811311WJyLI11111911T1C4K1zzz4",  # i
    "4P99G288LB9N99G958AQ949898CzzZ2",  # j
    "0fE1I76I21A9U85l89X8KUBAAR8zSL5",  # k
    "0BLK151L61SXDMC1467AN186C1GzSu4",  # l
    "041FG1NJ91F94RBU18G2M1F89T7zSe7",  # m
    "0B3111D1U561F1KGDDC11C1F61NzSO1",  # n
    "41711H1rBSC32111191I211191Lzzz4",  # o
    "4DBE71F17A9A14E4181111B8119zSc6",  # p
    "2AE89978888A57A999F783A8888zzT4",  # q
    "01Y1B1A1f1CAA8114F811F6681ZzSd8",  # r
    "0YBO11RC11FPgJH132F1117C81TzS75",  # s
    "0BDMM14911FJD1L11A11h1G151HgSS4",  # t
    "016L31A494Ke14BS16111NJDFFAzzw4",  # u
    "7IBA929B81A393HH9CSEABD99F9wWW4",  # v
    "01B9A19811AD68418841AB989O9zSU4",  # w
    "0191A19A6478899817AV1889C4EbSa4",  # x
    "0VGRE1B9I39JUBB168H2REAB9D6zS74",  # y
    "5cGBGD88JQ8E9BJIA7GDBCC97PFzzd5",  # z
    "3xWuUQnzzzzzzzzzzzzzzzzzfzzDal5",  # digit
    "0R4A4K4L498I44PJC4F44WE4IQmeE73",  # mark
    "RmmiUrUlzznzzmzzZzWzUwzcUUzMR11",  # end of line
    "79C47EDAF7D9GA83A72GKB6C7ADxyQ0",  # beyond
)
_CAPITAL = 4  # what a capital costs more


def _price_pairs() -> npt.NDArray[np.uint8]:
    prices = np.array([[_DIGITS.index(price) for price in row] for row in _ROWS], np.uint8)
    kinds = np.array([_kind(byte) for byte in range(256)])
    table: npt.NDArray[np.uint8] = prices[kinds][:, kinds]
    table[:, list(string.ascii_uppercase.encode())] += _CAPITAL
    return table.T.ravel()  # the first byte is the low one


# The price of a character beyond ASCII, from this code point on.
_SCRIPTS: tuple[tuple[int, int], ...] = (
    (0x0, 0),
    (0x80, 56),  # signs of Latin-1
    (0x180, 55),  # Latin, more
    (0x250, 134),  # phonetic
    (0x300, 84),  # combining
    (0x370, 34),  # Greek, more
    (0x460, 51),  # Cyrillic, more
    (0x530, 85),  # Armenian
    (0x590, 85),  # Hebrew points
    (0x600, 58),  # Arabic, more
    (0x700, 84),  # Syriac to Samaritan
    (0x970, 38),  # Devanagari, more
    (0x980, 55),  # Bengali
    (0xA00, 77),  # Gurmukhi
    (0xA80, 78),  # Gujarati
    (0xB00, 84),  # Odia
    (0xB80, 61),  # Tamil
    (0xC00, 80),  # Telugu
    (0xC80, 80),  # Kannada
    (0xD00, 73),  # Malayalam
    (0xD80, 84),  # Sinhala
    (0xE50, 43),  # Thai, more
    (0xE80, 90),  # Lao
    (0xF00, 84),  # Tibetan
    (0x1000, 85),  # Burmese
    (0x10A0, 84),  # Georgian
    (0x1100, 78),  # Hangul parts
    (0x1200, 123),  # Ethiopic
    (0x1380, 84),  # Cherokee to Runic
    (0x1780, 69),  # Khmer
    (0x1800, 78),  # Mongolian to Vedic
    (0x1E00, 46),  # Latin of Vietnamese
    (0x1F00, 134),  # Greek, ancient
    (0x2000, 18),  # punctuation
    (0x2070, 79),  # symbols, arrows, boxes
    (0x2C00, 84),  # Glagolitic to Kangxi
    (0x3000, 35),  # punctuation of East Asia
    (0x3100, 71),  # Bopomofo and the like
    (0x3400, 120),  # Han, rare
    (0x4E00, 96),  # Han
    (0xA000, 84),  # Yi to Meetei
    (0xAC00, 87),  # Hangul
    (0xD7B0, 134),  # private use
    (0xF900, 36),  # full and half width
    (0x10000, 80),  # emoji and all beyond
)

# The price of each letter from this code point on, in twentieths of a token.
_LETTERS: tuple[tuple[int, str], ...] = (
    (0xC0, "XLFn53zQk3zd3Ekr7D3Lz5wE3zIrvDCH3IG3Q5zOvM73ZMeoQz6AA3MnzH8QXPdR"),  # Latin: À to ÿ
    (  # Ā to ſ
        0x100,
        "lg3gVBy8YYjjzaMzR3k8YYlzWBKIYYScjjjqYYYMnRkoYSzzmHYYYYlbjKRmeNzYYTcPTnZJzYj8lHYe"
        "ROk3KKaaAbzRYY3SzYNCTijjsznzYeKJdTlzXXXXfF333pjY",
    ),
    (0x384, "ggmaLfTYTYYcglZcRSm3zlwoKZhafqYTLfnfjlXXLLOJgFqW7DgKKCBRIPiDIOfLOCUPdDTXBbp"),  # Greek
    (  # Cyrillic
        0x400,
        "YeEMxcygZTTWXYfTCfWwzlzY7zRStaDXNFT8bzLfzzh3AZr3965VE8AG6BI76343BC8OEMD4S3z33583"
        "YZfIucbzzipdeYbT",
    ),
    (0x5D0, "EITNJLa5OHPaSUBZSbSNWMVPS7O"),  # Hebrew
    (
        0x620,
        "Y6SIz8z8ATJTOTCGMCJ39WTR4DZYYYYYzFMLDDC7KBG9llIHIKFYzRYYYYYYYYYYyyyyyyyyyyuYYYYY",
    ),  # Arabic
    (  # Devanagari
        0x900,
        "YGHvYYnQRYzbYYYZEHYUXDnZlcQiRSmZHZmdMVSiNYEKPcIUGXKcYXWMKGYYgYIJIPgpYMYNeVYQVEYY"
        "YYYYYYYYHYYMcq8YYYYYvYaWTVTVVVVV",
    ),
    (
        0xE00,
        "YJGYHYYLHZGYYfYcaYYEIHFIhLIGFYGYcHIKYIYGfZIGYNYYHINGKIdHFFYYYYYYLFfGFYdFLHffFYZY",
    ),  # Thai
    (  # Hiragana and Katakana
        0x3040,
        "YlSaOXNRHfIHIKZIQLh9H9CKI5aFgDZNLOYKJXEDPXMKOzNUNjNhYEPYfOdQWY6PYHOqLXchJB4SFFYG"
        "YYJLYYYYYYZYYYYYY5KGLaIHHeEJeGhI9raIQORM5BHBfWeNJJYHzYFM5FIFXfIYIHYFCCMNIi7btFLd"
        "LBUJYBOBeDKJCJYZYYYHXYZYYYYEVWdY",
    ),
)

# The characters that are one token of cl100k, and their price.
_ONE_TOKEN: tuple[tuple[int, str], ...] = (
    (
        36,
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
        30,
        "가간값개거게결경고공과구그글기나내는능니다당대도동되된드든들디라래러력로록료류른를름리만메면명목문미버번보복부"
        "분비사산상색생서성세션소수스습시식신아야어에여열오와요용우운원위으은을음의이인일임입자작장재적전정제져조주지진"
        "째체출치크태터턴트튼하한할함해호화환회",
    ),
)
LAST = 0x10000  # this and all code points beyond have one price


def _price_codes() -> npt.NDArray[np.uint8]:
    starts, prices = zip(*_SCRIPTS, strict=True)
    table = np.repeat(np.array(prices, np.uint8), np.diff((*starts, LAST + 1)))
    for start, letters in _LETTERS:
        table[start : start + len(letters)] = [2 * _DIGITS.index(price) for price in letters]
    for price, chars in _ONE_TOKEN:
        table[list(map(ord, chars))] = price
    return table


PAIRS = _price_pairs()
"""From two neighboring bytes, read as one number, to the price of the second."""
CODES = _price_codes()
"""From a code point, at most `LAST`, to its price beside those of its bytes; 0 for ASCII."""
DEAREST = int(PAIRS.max())
