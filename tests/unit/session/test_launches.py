"""The lines of messages about launches."""

from fixtures.session.launches import lines_of

FRAME = f'    raise ValueError("{90 * "x"}")'


def test_a_long_sentence_becomes_lines_of_100_characters() -> None:
    sentence = f"training mine changes its process for later tests: {'; '.join(20 * ['umask: 18 to 0'])}"
    lines = lines_of(sentence)
    assert max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines) == sentence


def test_lines_of_code_stay_as_they_are() -> None:
    assert lines_of(f"rank 0 raised:\n{FRAME}\n\nat step 0") == ["rank 0 raised:", FRAME, "", "at step 0"]
