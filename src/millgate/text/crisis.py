"""Crisis: whether a message tells of a person in danger, or only uses a word of it.

One word proves little: "emergency exit" and "suicide rates" are not cries for help. What counts:
- something said outright: "kill myself", "wants to die", "suicidal thoughts" ...
- despair or a deed, as people put it: "life is not worth living", "I took too many pills" ...
- suicide, self-harm or an overdose, with a person and how that person is: feels, thinks of it, tried ...
- a crisis, an emergency or 988, with a person and a sign that body or mind is at risk.
If a message is about a text or a machine (a novel, a study, a server), only what the writer says outright of
themselves counts.
This decides who is shown to a person. Any word of a crisis is treated with care without it (stages/strategy.py).
English only. A miss costs more than a false alarm, so what is in doubt counts.
"""

import re
from collections.abc import Iterable

from millgate.text.lazy_pattern import lazy_compile

_SELF = r"(?:my|him|her|them|our|your)sel(?:f|ves)"
_WHOSE = r"(?:my|his|her|their|our)"


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?![\w-])")


def _words(spaced: str) -> Iterable[str]:
    return map(re.escape, spaced.split())


_NOT = r"(?:do not|don't|dont|does not|doesn't|did not|didn't|no longer|not)"
_LIVE = r"(?:live|be alive|exist|be here|wake up(?! (?:the|my|him|her|them|a)\b))"
_ELSEWHERE = r"(?! (?:in|near|next|at|on|with|insurance)\b)"  # "tired of living next to a road"
_DRUGS = r"(?:pills|tablets|paracetamol|tylenol|ibuprofen|xanax|meds)"
_HEIGHT = r"(?:bridge|roof|rooftop|building|balcony|cliff|ledge)"

_OUTRIGHT = _any(
    rf"(?:kill|hang|drown|unalive|off)(?:s|ed|ing)? {_SELF}",
    rf"(?:shoot|shoots|shooting|shot) {_SELF}(?! in the foot)",
    rf"(?:hurt|harm|cut|burn)(?:s|t|ed|ting|ing)? {_SELF}",
    rf"(?:slit|slitting|cut|cutting|slash|slashed) {_WHOSE} wrists?",
    rf"(?:end|ending|take|taking|took) {_WHOSE} (?:own )?li(?:fe|ves)",
    r"end(?:ing)? it all",
    r"(?:want|wants|wanted|wanting|ready|wish|about|going|deserve|deserves) to die",
    r"wanna die|wish i (?:was|were) dead|wish i could die|wish i had never been born",
    r"(?:i'd|i would|he'd|she'd) rather (?:be dead|die)|should (?:just )?die",
    r"(?:wanna|want to|gonna|going to|i'll|ill) kms",
    rf"{_NOT} (?:wan(?:t|ts|na)|wanting|deserve|deserves)(?: to)? {_LIVE}",
    r"better off (?:dead|without me)",
    r"(?:no|any) reason to (?:live|go on|keep going)|nothing (?:left )?to live for",
    r"can(?:'t|not|t) go on",
    r"suicidal thoughts|thoughts of suicide|feel(?:s|ing)? suicidal",
)
_DESPAIR = _any(
    rf"(?:not|isn't|isnt|no longer|never|n't) worth living{_ELSEWHERE}",
    rf"(?:no|see no|what(?:'s| is) the) (?:point|use|sense) (?:in|of) (?:living|going on|being alive){_ELSEWHERE}",
    r"(?:no|lost (?:the|my|his|her|their)|any) will to live",
    rf"(?:tired|sick) of (?:living|life|being alive){_ELSEWHERE}|hates? (?:living|being alive){_ELSEWHERE}",
    rf"done (?:with (?:life|it all)|living){_ELSEWHERE}",
    r"can(?:'t|not|t) (?:take|do|stand|bear) (?:it|this)(?: all)? any ?more",
    r"can(?:'t|not|t) (?:keep living|live) (?:like this|with (?:this|the|my|myself))",
    r"no way out (?:for (?:me|him|her|us)|any ?more)|see (?:a|any|no) way out",
    r"want(?:s|ed)? (?:it|everything)(?: all)? to (?:end|be over|stop)",
    r"(?:want|wants|going|ready|about|gonna) to end it(?! (?:with|by)\b)",
    r"want(?:s|ed)? to (?:disappear|vanish|be gone) (?:forever|for good)|should be gone",
    r"(?:wish|hope|pray) (?:i|he|she) (?:wouldn't|don't|won't|didn't|never|would not|do not) wake up",
    r"if i (?:was|were|am) (?:gone|dead|not here)|(?:better|happier)(?: off)? without me|miss me if i",
    r"burden (?:to|on) (?:everyone|everybody|my family|them all|you all|all of)",
    r"not safe (?:right now|alone|tonight|(?:with|from) myself)|feel safe (?:alone|tonight|with myself)",
    r"(?:wrote|writing|written|left)(?: \w+){0,3} (?:goodbye|farewell|suicide) (?:note|letter)s?",
    rf"(?:took|taken|swallowed|taking)(?: \w+){{0,2}} (?:too many|a lot of|lots of|all|bottle|handful|\w+ty|\d+)"
    rf"(?: \w+){{0,3}} {_DRUGS}|bottle of {_DRUGS}",
    rf"(?:saving|saved|stockpil\w+|hoarding)(?: up)?(?: \w+)? {_DRUGS}|(?:took|taken) an overdose",
    rf"(?:{_DRUGS}|way|ways)(?: \w+){{0,3}} to die|die (?:without (?:the |any )?pain|painlessly)",
    rf"jump(?:ing|ed|s)? (?:off|from) \w+ {_HEIGHT}|{_HEIGHT}(?: \w+){{0,6}} to jump",
    r"(?:want|wants|urge|urges|need|needs) to cut(?: again)?(?= |$)(?! \w)|(?:want|urge|need)s? to cut again",
    r"(?:think|thinking|thought|thoughts|dream\w*)(?: \w+)? (?:about|of) (?:dying|death|ending (?:it|my|his|her))",
)
_SAID_OF_ONESELF = _any(r"i|i'm|im|i've|i'd|i'll|myself|my (?:own )?life")
_PERSON = _any(
    *_words(
        "i i'm im i've ive i'd i'll me my mine myself we we're us our he he's she she's they they're him her his them "
        "their someone somebody friend friends friend's son daughter kid kids child children teenager brother sister "
        "mom mum mother dad father wife husband partner girlfriend boyfriend roommate student neighbor colleague coworker "
        "client clients patient patients caller resident"
    )
)
_TOPIC = _any(
    r"suicid\w*", r"self[- ]harm\w*", r"self[- ]injur\w*", r"overdos(?:e|ed|es|ing)(?: on)?"
)
_STATE = _any(
    r"feel\w*|felt|thought|thoughts|thinking|think|urges?|want|wants|wanted|consider\w*|attempt\w*|tried|trying",
    r"struggl\w*|can(?:'t|not|t)|commit\w*|scared|afraid|worried|pills|tonight|again|about to|might|suicidal|survived",
    r"lost|grieving|help (?:me|him|her|them|us)|needs? help|stop self[- ]harm\w*|started|overdosed",
    r"disclosed|reports?|reported|expressed|ideation|note|has taken|have taken",
)
_ALARM = _any(r"crisis|crises|emergency|988")
_DANGER = _any(
    r"breath\w*|bleed\w*|unconscious|unresponsive|collapsed|overdos\w*|pills|chest pains?|seizures?|heart attack|hurt",
    r"die|dying|hopeless|panick?\w*|desperate|scared|alone|mental(?: health)?|breakdown|can(?:'t|not|t) cope",
    r"(?:i'm|im|am|is|are|he's|she's) in (?:a )?crisis|having a crisis",
    r"(?:call|calling|text|texting|dial|reach|contact) 988",
    r"(?:this is|it is|it's|its) an emergency",
)
_NOT_BREATHING = _any(r"(?:not|isn't|isnt|aren't|stopped) breathing")
_ABOUT_A_THING = _any(
    *_words(
        "paper essay article novel story character movie film book song lyrics game squad bomber statistics rate rates "
        "research study studies survey policy dataset classifier regex code process thread server servers production prod "
        "build deploy deployment outage database pipeline rollback hotfix release patch exit fund brake contact broadcast "
        "kit plan budget economics financial energy currency debt midlife identity hostage missile meeting communications "
        "compiler debugger bug merge rebase css python vim subscription app scene trial schema refactoring"
    )
)


def tells_of_danger(text: str) -> bool:
    """Whether the text tells of a person in danger."""
    said = " ".join(text.lower().replace("’", "'").split())
    about_a_thing = bool(_ABOUT_A_THING.search(said))
    if _OUTRIGHT.search(said):
        return not about_a_thing or bool(_SAID_OF_ONESELF.search(said))
    if about_a_thing:
        return False
    if _DESPAIR.search(said):
        return True
    if not _PERSON.search(said):
        return False
    in_distress = _TOPIC.search(said) and _STATE.search(said)
    at_risk = _ALARM.search(said) and _DANGER.search(said)
    return bool(in_distress or at_risk or _NOT_BREATHING.search(said))
