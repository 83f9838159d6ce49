"""Names of schemes: the error for an unknown option lists the options that exist."""

import re

import pytest
from rayvous.protocol.errors import InputError
from rayvous.routing.schemes.registry import scheme


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("hybrid+turbo", "hybrid+merge, hybrid+quench"),
        ("hybrid+quench+quench", "hybrid+quench"),
        ("lbdd+quench", "there is lbdd"),
    ],
)
def test_an_option_that_is_not_there_is_told_with_those_that_are(name, there):
    with pytest.raises(InputError, match=re.escape(f"no routing scheme {name!r}: there is ")) as told:
        scheme(name)
    assert all(each in str(told.value) for each in there.split(", "))
