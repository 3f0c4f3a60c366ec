from headgate.text.symbols import likeness_to_code, symbols

PROSE = "The harbor of Quito was restored, they say."
CODE = "def load(path):\n    with path.open() as file:\n        return parse(file.read())"
JSON = '{"name": "a", "parameters": {"type": "object"}}'


def test_symbols_tell_code_from_prose():
    assert symbols([JSON]) > symbols([CODE]) > 0.06
    assert symbols([PROSE]) == 0
    assert symbols([]) == symbols([""]) == 0


def test_json_is_altogether_like_code_and_prose_is_not():
    assert likeness_to_code([JSON]) == 1
    assert likeness_to_code([PROSE]) == likeness_to_code([]) == 0
    assert 0 < likeness_to_code([PROSE * 3, CODE]) < 1
