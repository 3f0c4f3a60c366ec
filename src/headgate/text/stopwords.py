"""Stopwords: the function words of each language, which say how a sentence is built and not what it is about.

English has the list that the ranking was measured with. All other languages take theirs from the package
`stopwordsiso`; a few that it lacks have a short one here. Words are folded as `letters.fold` folds a text.
"""

from functools import cache

from headgate.text.letters import fold

ENGLISH = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been before being
    below between both but by can can't cannot could couldn't did didn't do does doesn't doing don don't down
    during each few for from further had hadn't has hasn't have haven't having he he'd he'll he's her here
    here's hers herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself
    just let's me more most mustn't my myself no nor not now of off on once only or other ought our ours
    ourselves out over own same shan't she she'd she'll she's should shouldn't so some such than that that's
    the their theirs them themselves then there there's these they they'd they'll they're they've this those
    through to too under until up very was wasn't we we'd we'll we're we've were weren't what what's when
    when's where where's which while who who's whom whose why why's will with won't would wouldn't you you'd
    you'll you're you've your yours yourself yourselves s t ll re ve d m
    """.split()  # noqa: SIM905 - a paragraph reads better than two hundred quoted words
)

# What the package has no list for: the commonest words, enough to know the language by.
_SHORT = {
    "nepali": "छ र को मा ले का लाई हो पनि यो छन् त्यो भएको गर्न गरेको तथा वा कुनै आफ्नो हुनेछ छैन थियो गर्ने",
    "serbian": "је и у на да се не за од са као су који која које што али или из по до би ће то",
    "tamil": "ஒரு மற்றும் இந்த என்று அது என்ற உள்ள",
    "yiddish": "און די דער דאָס איז פון פֿון אין צו מיט אַ אַן האָט ניט נישט וואָס ער זי זיי מען זיך אויף אויך",
}

CODES = {
    "arabic": "ar",
    "armenian": "hy",
    "basque": "eu",
    "bengali": "bn",
    "bulgarian": "bg",
    "catalan": "ca",
    "czech": "cs",
    "danish": "da",
    "dutch": "nl",
    "esperanto": "eo",
    "estonian": "et",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hebrew": "he",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "irish": "ga",
    "italian": "it",
    "latvian": "lv",
    "lithuanian": "lt",
    "marathi": "mr",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "romanian": "ro",
    "russian": "ru",
    "serbian": "hr",
    "sesotho": "st",
    "slovak": "sk",
    "slovenian": "sl",
    "spanish": "es",
    "swedish": "sv",
    "turkish": "tr",
    "ukrainian": "uk",
    "urdu": "ur",
    "vietnamese": "vi",
}


@cache
def stopwords(language: str) -> frozenset[str]:
    """The function words of a language, folded; none for a language without a list."""
    if language == "english":
        return ENGLISH
    from stopwordsiso import stopwords as listed  # noqa: PLC0415  its list is read when it is imported

    words = {*listed(CODES.get(language, "")), *_SHORT.get(language, "").split()}
    return frozenset(fold(word) for word in words if word.isalpha() or not word.isascii())
