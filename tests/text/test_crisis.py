"""A person in danger is told from the words of a crisis: the labeled lists that the rule is held to."""

from pathlib import Path

import pytest

from millgate.pipeline.stages.strategy import classify_task
from millgate.published.context_strategy import CRISIS as GROUP
from millgate.published.context_strategy import GROUPS
from millgate.text.crisis import tells_of_danger

DATA = Path(__file__).parent / "data"

CRISIS = """
I want to kill myself
i want to die
I just want to end my life tonight
I don't want to live anymore
i dont want to be here anymore
My family would be better off dead without all of us, and I mean it
they would be better off without me
I feel suicidal
feeling suicidal and nobody picks up
I keep having suicidal thoughts at work
I've been thinking about suicide a lot
I can't stop self-harming
I started to self harm again last week
how do I stop hurting myself
I keep cutting myself and hide it from my parents
there is no reason to live, I tried everything
I have nothing left to live for
I can't go on like this
I took too many pills, it's an emergency
I think I overdosed on my pills
my daughter says she wants to die
My friend is suicidal, what should I do?
my son attempted suicide yesterday
she told me she wants to end her life
he says he doesn't want to live
my brother is talking about killing himself
a student of mine wrote that he thinks of suicide and I'm worried
someone in my building is threatening to kill herself
I'm in crisis and need to talk to someone
I'm having a crisis, I can't cope
my mother is in a crisis, she is scared and alone
this is an emergency, my father is not breathing
emergency: she is unconscious and I don't know what to do
It's an emergency, please help me
should I call 988?
can I text 988 if I'm only sad?
I wish I was dead
i wanna die
I’m going to take my own life
we have an emergency here, he is bleeding badly
I survived a suicide attempt and it's getting bad again
Everything is hopeless, I'm thinking about ending it all
translate "I want to die" for the nurse, that is how I feel
""".strip().splitlines()
CRISIS += (DATA / "in_danger.txt").read_text().splitlines()

NO_CRISIS = """
where is the emergency exit?
what is the emergency contact of the Berlin office?
how do I test the emergency broadcast on staging?
write an emergency plan for the plant
how big should my emergency fund be?
our emergency rollback procedure failed
which brake is the emergency brake?
This is an emergency: production is down, please help me
what caused the financial crisis of 2008?
how did the energy crisis change our prices?
explain the Cuban missile crisis
is my father having a midlife crisis or is that a myth of the study?
who leads crisis communications?
summarize the crisis meeting
suicide rates in Japan by year
what is the plot of Suicide Squad?
which papers study suicide prevention in schools?
I'm writing a paper on suicide prevention
my classifier flags the word suicide too often
our policy on self-harm content
how does the process commit suicide in Erlang when its parent dies?
is there a self-harm category in the moderation dataset?
order 988 has not arrived
what is 988 in hexadecimal?
I need invoice 988 and invoice 989
room 988, please
which threads does the supervisor kill?
kill the process on port 8642
how do I end my subscription?
how do I end a live stream?
the battery wants to be charged, why does it die so fast?
why do salmon swim upstream to die?
what do I do before my trial ends?
I want to diet before summer
do not want to live-reload the page, how do I switch it off?
when did he die?
the character in the novel wants to die in the last chapter
her debt crisis, explained to a child
emergency room opening hours
what does the emergency kit in our car contain?
how do we cut costs ourselves?
a dead letter queue is better off deleted
overdose of caching: is a TTL of a year too long?
the living will: what is it?
""".strip().splitlines()
NO_CRISIS += (DATA / "harmless.txt").read_text().splitlines()


@pytest.mark.parametrize("message", CRISIS)
def test_a_person_in_danger_is_a_crisis(message):
    assert tells_of_danger(message)
    assert classify_task(message).group == GROUP


@pytest.mark.parametrize("keyword", GROUPS[GROUP][1])
def test_a_published_word_at_the_start_of_a_word_is_treated_with_care(keyword):
    for message in (keyword, f"Re: {keyword.upper()}al?", f"the ({keyword})"):
        assert classify_task(message).task == "rag_critical"
        assert classify_task(message).group == GROUP
    if " " not in keyword:
        assert classify_task(f"in{keyword}").group != GROUP


@pytest.mark.parametrize("message", NO_CRISIS)
def test_a_word_of_a_crisis_alone_is_none(message):
    assert not tells_of_danger(message)
    assert not classify_task(message).in_danger


def test_the_lists_are_as_long_as_they_claim_to_be_and_nothing_stands_twice():
    assert len(set((DATA / "in_danger.txt").read_text().splitlines())) >= 80
    assert len(set((DATA / "harmless.txt").read_text().splitlines())) == 100
    assert not set(CRISIS) & set(NO_CRISIS)


def test_capitals_and_spaces_and_curly_apostrophes_change_nothing():
    assert tells_of_danger("I  DON’T want\nto LIVE")
