"""What processes know of each other's channels."""

import pytest
from rayvous.actors.channels.config import channels_of, ports_of
from rayvous.protocol.errors import InputError


def test_a_network_with_channels_has_a_secret_of_its_own_that_is_not_printed() -> None:
    one, other = channels_of("direct", "20000-20100"), channels_of("direct", None)
    assert one and other and one.secret != other.secret and one.network != other.network
    assert one.ports == (20000, 20100) and other.ports is None
    assert repr(one.secret) not in repr(one)
    assert channels_of("ray", None) is None


@pytest.mark.parametrize("text", ["", "0", "5-4", "1-70000", "a-b", "1-2-3", "-5", 5])
def test_what_is_no_range_of_ports_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match=r"ports: is .* a range of ports"):
        ports_of(text)


def test_one_port_is_a_range() -> None:
    assert ports_of("20000") == (20000, 20000) and ports_of(None) is None
