"""Words too common to tell texts apart, by language.

English carries the full list that the lexical score was measured with. The other lists are short: they
drop the commonest words and let a text vote for its language.
"""

ENGLISH = frozenset(
    """a about above after again all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further had has have
    having he her here hers herself him himself his how i if in into is it its itself just me more most my
    myself no nor not now of off on once only or other our ours out over own same she should so some such
    than that the their theirs them themselves then there these they this those through to too under until
    up very was we were what when where which while who whom whose why will with would you your yours
    yourself yourselves s t don ll re ve d m""".split()
)

STOPWORDS: dict[str, frozenset[str]] = {
    "english": ENGLISH,
    "french": frozenset(
        """le la les un une des du de et est en que qui dans pour pas sur au aux avec ce cette ces il elle
        nous vous ils elles ne se sont plus par ou mais je tu son sa ses leur été être avoir l d c qu n s j
        à où comme""".split()
    ),
    "german": frozenset(
        """der die das den dem des ein eine einen einem einer und ist in zu mit auf für von nicht sich auch
        es an als bei aus wie nach er sie wir ihr ich im am um wird werden war sind hat dass oder aber
        über zum zur""".split()
    ),
    "spanish": frozenset(
        """el la los las un una unos unas de del y en que es por con para no se su sus al lo como más pero
        fue son este esta esto le les ha han era o yo tú él ella nos qué cómo sobre entre""".split()
    ),
    "italian": frozenset(
        """il lo la i gli le un uno una di del della dei delle e è in che per con non si su al alla da dal
        come più ma sono era ha hanno questo questa anche o io tu lui lei noi nel nella l d c dell""".split()
    ),
    "portuguese": frozenset(
        """o a os as um uma de do da dos das e é em que por com para não se seu sua ao à no na nos nas como
        mais mas foi são este esta isso ele ela ou eu nós pelo pela""".split()
    ),
    "dutch": frozenset(
        """de het een en van in is dat op te zijn met voor niet aan er om ook als maar bij door naar uit dan
        nog wel werd wordt hij zij ze ik we wij je over tot heeft deze""".split()
    ),
    "swedish": frozenset(
        """och att det som en ett den är på av för med till inte om har de jag var han hon vi du från så kan
        men eller när där ska skulle sin sig""".split()
    ),
    "danish": frozenset(
        """og at det som en et den er på af for med til ikke om har de jeg var han hun vi du fra så kan men
        eller når der skal skulle sin sig blev""".split()
    ),
    "norwegian": frozenset(
        """og at det som en et den er på av for med til ikke om har de jeg var han hun vi du fra så kan men
        eller når der skal skulle sin seg ble""".split()
    ),
    "russian": frozenset(
        """и в не на я он что с это как а по но к у из за от о же то она мы вы они был была было были для
        бы его её их так все при или если""".split()
    ),
}
