"""What the client has, and what the model is shown of it."""

from headgate.guard.channels import SentText


def sent(*parts):
    text = SentText()
    for part in parts:
        text.append(part)
    return text


def test_the_model_is_shown_what_was_sent():
    text = sent("The keeper ", "went out.")
    assert str(text) == text.shown() == "The keeper went out."
    assert text.shown(10) == "The keeper"
    assert (text.last, SentText().last) == (".", "")


def test_a_loop_cut_at_its_onset_is_not_shown_and_what_follows_is():
    text = sent("It began. ", "fofofo")
    text.omit_from(10)
    text.append("It went on. ")
    text.append("baba")
    assert str(text) == "It began. fofofoIt went on. baba"
    assert text.shown() == "It began. It went on. baba"
    text.omit_from(28)
    assert text.shown() == "It began. It went on. "
    assert len(text.shown(28)) == 22


def test_an_earlier_onset_takes_a_later_one_in():
    text = sent("It began. ", "fofofo")
    text.omit_from(10)
    text.append("more")
    text.omit_from(3)
    assert text.shown() == "It "
