"""Crisis: whether a message tells of a person in danger, or only uses a word of it.

One word proves little: "emergency exit" and "suicide rates" are not cries for help. What counts:
- something said outright: "kill myself", "wants to die", "suicidal thoughts" ...
- suicide, self-harm or an overdose, with a person and how that person is: feels, thinks of it, tried, took pills ...
- a crisis, an emergency or 988, with a person and a sign that body or mind is at risk.
Where a message is about a text or a machine (a novel, a study, a server), only what the writer says outright of
themselves counts.
English only. A miss costs more than a false alarm, so what is in doubt counts.
"""

import re
from collections.abc import Iterable

from headgate.text.lazy_pattern import lazy_compile

_SELF = r"(?:my|him|her|them|our|your)sel(?:f|ves)"
_WHOSE = r"(?:my|his|her|their|our)"


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?![\w-])")


def _words(spaced: str) -> Iterable[str]:
    return map(re.escape, spaced.split())


_OUTRIGHT = _any(
    rf"kill(?:ing|ed)? {_SELF}",
    rf"(?:end|ending|take|taking|took) {_WHOSE} (?:own )?li(?:fe|ves)",
    r"end(?:ing)? it all",
    r"(?:want|wants|wanted|wanting|ready|wish|about|going) to die",
    r"wanna die|wish i (?:was|were) dead|wish i could die|wish i had never been born",
    r"(?:do not|don't|dont|does not|doesn't|did not|didn't|no longer) wan(?:t|ts|na)(?: to)? (?:live|be alive|exist|wake up|be here any ?more)",
    r"better off (?:dead|without me)",
    rf"(?:hurt|hurting|harm|harming|cut|cutting) {_SELF}",
    r"(?:no|any) reason to (?:live|go on|keep going)|nothing (?:left )?to live for",
    r"can(?:'t|not|t) go on (?:living|any ?more|like this)",
    r"suicidal thoughts|thoughts of suicide|feel(?:s|ing)? suicidal",
)
_SAID_OF_ONESELF = _any(r"i|i'm|im|me|my|myself")
_PERSON = _any(
    *_words(
        "i i'm im i've ive i'd i'll me my mine myself we we're us our he he's she she's they they're him her his them "
        "their someone somebody friend friends friend's son daughter kid kids child children teenager brother sister "
        "mom mum mother dad father wife husband partner girlfriend boyfriend roommate student neighbor colleague coworker"
    )
)
_TOPIC = _any(
    r"suicid\w*", r"self[- ]harm\w*", r"self[- ]injur\w*", r"overdos(?:e|ed|es|ing)(?: on)?"
)
_STATE = _any(
    r"feel\w*|felt|thought|thoughts|thinking|think|urges?|want|wants|wanted|consider\w*|attempt\w*|tried|trying",
    r"struggl\w*|can(?:'t|not|t)|commit\w*|scared|afraid|worried|pills|tonight|again|about to|might|suicidal|survived",
    r"lost|grieving|help (?:me|him|her|them|us)|needs? help|stop self[- ]harm\w*|started",
)
_ALARM = _any(r"crisis|crises|emergency|988")
_DANGER = _any(
    r"breath\w*|bleed\w*|unconscious|unresponsive|collapsed|overdos\w*|pills|chest pains?|seizures?|heart attack|hurt",
    r"die|dying|hopeless|panick?\w*|desperate|scared|alone|mental(?: health)?|breakdown|can(?:'t|not|t) cope",
    r"(?:i'm|im|am|is|are|he's|she's) in (?:a )?crisis|having a crisis",
    r"(?:call|calling|text|texting|dial|reach|contact) 988",
    r"(?:this is|it is|it's|its) an emergency",
)
_ABOUT_A_THING = _any(
    *_words(
        "paper essay article novel story character movie film book song lyrics game squad bomber statistics rate rates "
        "research study studies survey policy dataset classifier regex code process thread server servers production prod "
        "build deploy deployment outage database pipeline rollback hotfix release patch exit fund brake contact broadcast "
        "kit plan budget economics financial energy currency debt midlife identity hostage missile meeting communications"
    )
)


def is_crisis(text: str) -> bool:
    """Whether the text tells of a person in danger."""
    said = " ".join(text.lower().replace("’", "'").split())
    about_a_thing = bool(_ABOUT_A_THING.search(said))
    if _OUTRIGHT.search(said):
        return not about_a_thing or bool(_SAID_OF_ONESELF.search(said))
    if about_a_thing or not _PERSON.search(said):
        return False
    in_distress = _TOPIC.search(said) and _STATE.search(said)
    return bool(in_distress or (_ALARM.search(said) and _DANGER.search(said)))
