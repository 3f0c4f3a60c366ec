"""Stopwords: the function words of each language, which say how a sentence is built and not what it is about.

English has the list that the ranking was measured with. All other languages take theirs from the package
`stopwordsiso`; what it lacks stands here: a short list for a few languages, and words that ask. Words are folded as
`letters.fold` folds a text.
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

# Who, what, when, where, which, why, how and how many, where its lists lack them: a statement seldom has such a word,
# so it would count as a rare one.
_QUESTIONS = {
    "arabic": "أية لماذا",
    "armenian": "ով ինչ երբ որտեղ ուր ինչու ինչպես քանի որքան ինչպիսի",
    "bengali": "কার কাকে কখন কোথায় কোনটি কিভাবে কীভাবে কেমন কতটি",
    "bulgarian": "коя кое кои какви",
    "catalan": "quanta quants quantes",
    "danish": "hvilket hvilke",
    "dutch": "hoeveel",
    "esperanto": "kiuj kia kies kiam kie kial kiel kiom",
    "estonian": "kes kelle keda mille millal kus kuhu milline millised missugune miks kuidas mitu palju",
    "finnish": "millainen montako paljonko",
    "german": "wieviel wieviele",
    "greek": "γιατί πόσο πόσα",
    "hebrew": "מהו מהי איזו אילו כמה האם",
    "hindi": "कौनसी कौनसे किसने किसका किसकी किसके किन क्या कब कहाँ कहां क्यों कैसे कैसा कैसी कितने कितनी",
    "indonesian": "manakah dimana kemana",
    "irish": "cé cad céard cathain cá conas cén fáth mhéad",
    "latvian": "kas kam ko kad kur kurš kura kuri kuras kurā kāds kāda kādi kādas kāpēc kādēļ cik",
    "lithuanian": "ką kam kurie kurios kokie kokios kodėl",
    "marathi": "कोण कोणी कोणाचे केव्हा कधी कुठे कोठे कोणता कोणती कोणते कोणत्या कसे कसा कशी किती",
    "nepali": "कसले कसको के कहिले कहाँ कुन किन कसरी कस्तो कति",
    "norwegian": "hvilket",
    "persian": "چی کیست",
    "portuguese": "quanta quantos quantas",
    "romanian": "câtă câți",
    "russian": "какое какие каких какого",
    "serbian": "ко кога коме шта када кад где куда какав зашто како колико tko ko koga kome šta kad gdje gde kuda"
    " kakav zašto koliko",
    "sesotho": "mang eng neng kae efe hobaneng jwang joang kakae",
    "slovak": "kedy koľko",
    "slovenian": "česa kam kateri katera katero katere kakšen kakšna koliko",
    "tamil": "யார் யாருடைய என்ன எப்போது எங்கே எங்கு எந்த எது எவை ஏன் எப்படி எவ்வாறு எத்தனை எவ்வளவு",
    "turkish": "kimin neler kaç mi mıdır midir mudur müdür",
    "ukrainian": "хто кого кому куди яка яке які яких якого чому навіщо скільки",
    "urdu": "کون کس کسے کیا کہاں کونسا کونسی کیسے کیسا کتنا کتنے کتنی",
    "vietnamese": "đâu bao nhiêu mấy",
    "yiddish": "ווער וועמען ווען וווּ וועלכע וועלכער פֿאַרוואָס ווי וויפֿל",
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

    own = f"{_SHORT.get(language, '')} {_QUESTIONS.get(language, '')}"
    words = {*listed(CODES.get(language, "")), *own.split()}
    return frozenset(fold(word) for word in words if word.isalpha() or not word.isascii())
