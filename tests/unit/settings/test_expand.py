import pytest

from sidecar.settings.expand import expand

ENVIRON = {"ZONE": "bj-a", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("${ZONE}", "bj-a"),
        ("zone-${ZONE}.${ZONE}", "zone-bj-a.bj-a"),
        ("${EMPTY}", ""),
        ("${EMPTY:-x}", "x"),
        ("${NO:-x}", "x"),
        ("${NO:-}", ""),
        ("$$", "$"),
        ("$${ZONE}", "${ZONE}"),
        ("$ZONE costs 5$", "$ZONE costs 5$"),
    ],
)
def test_references(text, result):
    assert expand(text, ENVIRON) == result


def test_values_are_not_expanded_again():
    assert expand("${A}", {"A": "${B}", "B": "x"}) == "${B}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${NO}", "NO is not set"),
        ("${}", "is not a reference"),
        ("${a-b}", "is not a reference"),
        ("${A", "without a closing"),
    ],
)
def test_bad_references(text, words):
    with pytest.raises(ValueError, match=words):
        expand(text, {})
