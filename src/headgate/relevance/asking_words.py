"""Asking words: words of a query that ask for something and name nothing.

"Explain", "list" and "please" say nothing of what a text must hold. Question words with spaces around them are
stopwords; scripts without spaces have none, since their terms are pairs of signs. There every pair that touches an
asking word asks too, the seam to the next word included: of 纤毛是用来做什么的, "what are cilia for", only 纤毛, cilia,
is left.
"""

import re
from functools import cache
from itertools import chain
from string import ascii_lowercase

from headgate.text.languages import choose
from headgate.text.late_pattern import compile_late
from headgate.text.letters import UNSPACED, fold
from headgate.text.terms import terms

REQUESTS = {
    "english": "summarize summary discuss describe explain tell find give show list help please hello hey hi thank"
    " want need know like look something anything",
    "arabic": "اشرح وضح صف اذكر لخص أخبرني ابحث أعطني أرني ساعدني فضلك أريد أعرف شكرا مرحبا",
    "dutch": "leg uit verklaar beschrijf vertel vat samen zoek vind geef toon noem help alstublieft graag wil weten bedankt"
    " hallo",
    "french": "explique expliquez décris décrivez dis dites raconte résume résumez trouve trouvez donne donnez montre"
    " montrez liste listez aide aidez veux savoir merci bonjour",
    "german": "erkläre erklären beschreibe beschreiben sag sage erzähle fasse zusammen zusammenfassung finde gib zeig zeige"
    " nenne liste hilf bitte möchte wissen danke hallo",
    "hindi": "समझाओ समझाइए समझाएं बताओ बताइए बताएं वर्णन सारांश खोजो खोजें दीजिए दिखाओ दिखाएं सूची मदद कृपया चाहता जानना"
    " धन्यवाद नमस्ते",
    "italian": "spiega spiegami descrivi dimmi dica racconta riassumi trova dammi mostra mostrami elenca aiuta aiutami favore"
    " voglio vorrei sapere grazie ciao",
    "polish": "wyjaśnij wyjaśnijcie opisz powiedz opowiedz podsumuj streść znajdź podaj daj pokaż wymień pomóż proszę chcę"
    " wiedzieć dziękuję cześć",
    "portuguese": "explique explica descreva descreve diga conte resuma encontre ache dê mostre mostra liste ajude ajuda favor"
    " quero gostaria saber obrigado obrigada olá",
    "russian": "объясни объясните опиши опишите расскажи расскажите скажи скажите перечисли перечислите найди найдите дай"
    " дайте покажи покажите помоги помогите пожалуйста хочу знать спасибо привет",
    "spanish": "explica explique explícame describe describa di diga dime cuenta resume resuma encuentra busca da dame"
    " muestra muéstrame enumera lista ayuda ayúdame favor quiero quisiera saber gracias hola",
    "turkish": "açıkla açıklayın açıklayınız anlat anlatın söyle söyleyin özetle özetleyin bul bulun ver verin göster gösterin"
    " listele listeleyin yardım lütfen istiyorum bilmek teşekkürler merhaba",
}
"""Language -> words that ask; of those written with spaces, the ones most people write."""

UNSPACED_REQUESTS = {
    "chinese": "什么 什麼 甚么 甚麼 谁 誰 哪 何时 何時 何处 何處 何地 为何 為何 如何 怎 多少 多久 多长 多長 多大 多高 多远 多遠"
    " 几个 幾個 几年 幾年 是否 吗 嗎 呢 是 的 了 被 用来 用來 请 請 告诉 告訴 解释 解釋 描述 列出 总结 總結 说明 說明",
    "japanese": "何 誰 なに なん なぜ どうして どう どの どれ どこ どちら どんな いつ だれ いくつ いくら ですか ますか でしょうか"
    " ましたか とは です ます でした ました する した して された いる いた ください 教えて 説明",
    "korean": "무엇 무슨 뭐 누구 누가 언제 어디 어느 어떤 어떻게 어떠한 왜 얼마 몇 입니까 습니까 인가 는가 은가 던가 였나 나요 까요"
    " 에서 으로 하는 했던 설명 알려 주세요 해줘",
    "thai": "อะไร ใคร ไหน เมื่อไร เมื่อไหร่ ทำไม เพราะเหตุ อย่างไร ยังไง เท่าไร เท่าไหร่ เท่าใด กี่ ใด หรือไม่ ไหม มั้ย คือ เป็น ที่ ของ ใน"
    " และ ได้ โปรด กรุณา อธิบาย บอก แสดง",
    "lao": "ຫຍັງ ໃຜ ໃສ ເມື່ອໃດ ແນວໃດ ເທົ່າໃດ ຈັກ ໃດ ແມ່ນ ຂອງ ໃນ ແລະ ທີ່ ກະລຸນາ ອະທິບາຍ",
    "khmer": "អ្វី នរណា ណា ដូចម្តេច ប៉ុន្មាន តើ ឬទេ គឺ ជា នៃ ក្នុង និង ដែល សូម ពន្យល់",
    "burmese": "ဘာ ဘယ် အဘယ် လဲ သလား နည်း သည် နှင့် ရှင်းပြ ပြောပြ",
}
"""The same for those written without spaces: question words too, and the commonest function words around them."""

_UNSPACED = compile_late(f"[{UNSPACED}]")


def asking_terms(query: str, language: str) -> frozenset[int]:
    """The terms that only ask, in the language of a query; where it has no spaces, those of the query itself."""
    found = _requests(choose(query, language))
    if not _UNSPACED.search(query):
        return found
    named = terms(_unspaced_words().sub(" ", fold(query)), language)
    return found | frozenset(terms(query, language)).difference(named)


@cache
def _requests(language: str) -> frozenset[int]:
    # a single letter, as in %d or (c), names nothing either
    return frozenset(terms(f"{REQUESTS.get(language, '')} {' '.join(ascii_lowercase)}", language))


@cache
def _unspaced_words() -> re.Pattern[str]:
    words = chain.from_iterable(map(str.split, UNSPACED_REQUESTS.values()))
    # the longest first, since an alternative that begins another would hide it
    return re.compile("|".join(sorted(map(fold, words), key=len, reverse=True)))
