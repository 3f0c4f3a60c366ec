"""Opposing words: those by which one fact denies another, in the languages that facts are mostly written in.

Words of all languages stand together: a fact is too short to be sure of its language, and what is "no" in one is
seldom anything else in another. Where a language denies by several words at once (ne … pas), any of them tells.
"""

from headgate.text.letters import fold

NEGATIONS = frozenset(
    fold(word)
    for word in """
    not no never none without cannot cant dont doesnt didnt isnt arent wasnt werent wont wouldnt shouldnt couldnt hasnt
    havent hadnt stopped quit
    nicht kein keine keinen keinem keiner keines nie niemals ohne
    ne pas jamais aucun aucune sans ni nunca jamás ningún ninguna tampoco não nenhum nenhuma sem non mai nessuno nessuna
    senza nu niciodată fără
    niet geen nooit zonder inte ingen inget aldrig utan ikke aldri aldrig uden uten ei eivät koskaan ilman
    nie nigdy bez není nejsou nikdy žádný nem soha nélkül değil yok hiç asla yoktur tidak bukan jangan tanpa không chưa
    не нет никогда ни без немає ніколи няма никога
    δεν δε μην μη όχι ποτέ χωρίς κανένας καμία
    לא אין בלי ليس لا لم لن بدون ليست نه نیست هرگز नहीं मत बिना না নয় নেই இல்லை
    """.split()  # noqa: SIM905  (a paragraph reads better than quoted words)
)
"""Words that deny."""

NEGATING_SIGNS = (
    "不",
    "没",
    "沒",
    "無",
    "无",
    "勿",
    "ない",
    "なか",
    "せん",
    "않",
    "없",
    "못",
    "ไม่",
)
"""What denies in scripts without spaces, whose words are pairs of signs."""

_PAIRS = """
enabled/disabled enable/disable on/off true/false always/never likes/dislikes like/dislike loves/hates love/hate
allowed/forbidden allow/deny required/optional public/private open/closed up/down alive/dead married/single
before/after more/less increase/decrease success/failure passes/fails works/broken safe/unsafe valid/invalid
accepts/rejects accept/reject start/stop hot/cold fast/slow vegetarian/meat dark/light tabs/spaces sync/async
allergic/loves
aktiviert/deaktiviert an/aus wahr/falsch immer/nie liebt/hasst erlaubt/verboten öffentlich/privat offen/geschlossen
vor/nach mehr/weniger hell/dunkel schnell/langsam warm/kalt gültig/ungültig nötig/optional
activé/désactivé vrai/faux toujours/jamais aime/déteste permis/interdit public/privé ouvert/fermé avant/après plus/moins
activado/desactivado verdadero/falso siempre/nunca ama/odia permitido/prohibido público/privado abierto/cerrado
antes/después más/menos
attivo/disattivo vero/falso sempre/mai ama/odia permesso/vietato pubblico/privato aperto/chiuso prima/dopo più/meno
ativado/desativado verdadeiro/falso sempre/nunca permitido/proibido aberto/fechado mais/menos
aan/uit waar/onwaar altijd/nooit toegestaan/verboden openbaar/privé open/gesloten meer/minder
включен/выключен включено/выключено всегда/никогда любит/ненавидит разрешено/запрещено открыт/закрыт до/после
больше/меньше
ενεργό/ανενεργό ενεργοποιημένο/απενεργοποιημένο πάντα/ποτέ αγαπά/μισεί επιτρέπεται/απαγορεύεται ανοιχτό/κλειστό
πριν/μετά περισσότερο/λιγότερο δημόσιο/ιδιωτικό
启用/禁用 开启/关闭 允许/禁止 喜欢/讨厌 总是/从不 公开/私有 之前/之后 有効/無効 許可/禁止
"""


def _pair_up() -> dict[str, frozenset[str]]:
    pairs = [tuple(map(fold, pair.split("/"))) for pair in _PAIRS.split()]
    both = [*pairs, *((other, one) for one, other in pairs)]
    return {word: frozenset(other for one, other in both if one == word) for word, _ in both}


OPPOSITES = _pair_up()
"""A word -> those of opposite meaning. Han words have two signs, so that they are pairs of signs."""

SINGLE_VALUED = frozenset(
    fold(word)
    for word in """
    lives live works located called named is was born default port version host prefers favorite deadline runs deployed
    owner manager password uses
    wohnt lebt arbeitet liegt heißt ist war geboren bevorzugt läuft nutzt verwendet leiter passwort
    habite vit travaille située appelle est était né née préfère tourne utilise mot
    vive trabaja ubicado llama es era nació prefiere usa utiliza
    vive lavora chiama è nato preferisce gira mora trabalha chama nasceu prefere
    woont werkt ligt heet geboren draait gebruikt mieszka pracuje nazywa jest bor arbetar heter är jobber hedder
    живет живёт работает находится называется родился использует предпочитает
    μένει ζει εργάζεται δουλεύει βρίσκεται λέγεται είναι ήταν γεννήθηκε προτιμά τρέχει χρησιμοποιεί
    住在 位于 叫做 名叫 使用 工作 运行
    """.split()  # noqa: SIM905  (as above)
)
"""After these a fact has one answer: two different ones oppose each other."""
