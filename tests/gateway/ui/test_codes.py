"""Codes that stand for a token once."""

import pytest
from rayvous.gateway.ui.codes import CODE_SECONDS, CODES_MAX, Codes
from rayvous.protocol.errors import AccessDenied


def test_a_code_is_good_once():
    codes = Codes()
    code, other = codes.issue("secret"), codes.issue("secret")
    assert code != other and "secret" not in code and len(code) >= 40
    assert codes.redeem(code) == "secret"
    with pytest.raises(AccessDenied, match="opens the page once"):
        codes.redeem(code)
    assert codes.redeem(other) == "secret" and len(codes) == 0


def test_a_code_is_good_for_some_minutes():
    now = [0.0]
    codes = Codes(lambda: now[0])
    code, late = codes.issue("a"), codes.issue("b")
    now[0] = CODE_SECONDS - 1
    assert codes.redeem(code) == "a"
    now[0] = CODE_SECONDS
    with pytest.raises(AccessDenied):
        codes.redeem(late)
    assert len(codes) == 0


def test_codes_are_bounded_and_the_oldest_goes():
    codes = Codes()
    made = [codes.issue(str(number)) for number in range(CODES_MAX + 3)]
    assert len(codes) == CODES_MAX
    for lost in made[:3]:
        with pytest.raises(AccessDenied):
            codes.redeem(lost)
    assert [codes.redeem(code) for code in made[3:]] == [str(number) for number in range(3, CODES_MAX + 3)]


@pytest.mark.parametrize("code", ["", "x", "\ud800"])
def test_whatever_else_is_shown_is_no_code(code):
    codes = Codes()
    codes.issue("secret")
    with pytest.raises(AccessDenied):
        codes.redeem(code)
    assert len(codes) == 1
