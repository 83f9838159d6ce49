"""Address blocks: which strings they contain, which block contains which, and which texts are refused.

Reference: RFC 4632, section 3.1; RFC 4291, sections 2.2 and 2.5.5.2.
"""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.errors import SelectorError
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.filters.networks import Network, network_of
from rayvous.routing.language.comparing import covers, intersects

V4 = st.tuples(st.ip_addresses(v=4), st.integers(0, 32))
V6 = st.tuples(st.ip_addresses(network="2001::/16"), st.integers(0, 128))
BLOCKS = st.one_of(V4, V6).map(lambda drawn: ipaddress.ip_network(drawn, strict=False))


def held(network: Network, text: str) -> bool:
    return network.matches(text)


@given(BLOCKS, BLOCKS, st.integers(0, 8), st.booleans(), st.booleans())
def test_blocks_hold_each_other_as_their_addresses_do(one, other, near, one_negated, other_negated):
    if other.version == one.version and near:  # make the second block contain the first
        other = one.supernet(prefixlen_diff=min(near, one.prefixlen))
    texts = [str(block[place]) for block in (one, other) for place in (0, -1, block.num_addresses // 2)]
    found = [network_of(str(block)) for block in (one, other)]
    for network, block in zip(found, (one, other), strict=True):
        assert str(network) == str(block)
        assert [held(network, text) for text in texts] == [
            ipaddress.ip_address(text) in block for text in texts
        ]
    mine = found[0].inverse if one_negated else found[0]
    its = found[1].inverse if other_negated else found[1]
    assert mine.implies(mine) and mine.excludes(mine.inverse)
    alike = one.version == other.version
    inside, holds = alike and one.subnet_of(other), alike and other.subnet_of(one)
    expected = {
        (False, False): inside,
        (False, True): not (inside or holds),
        (True, True): holds,
        (True, False): False,  # strings that are not addresses are in no block
    }
    assert mine.implies(its) is expected[one_negated, other_negated]


def test_filters_of_networks_cover_and_print():
    assert covers("ip CIDR '10.0.0.0/8'", "ip CIDR '10.4.0.0/16'")
    assert not covers("ip CIDR '10.4.0.0/16'", "ip CIDR '10.0.0.0/8'")
    assert covers("ip CIDR '10.0.0.0/8'", "ip IN ('10.1.1.1', '::ffff:10.2.2.2')")
    assert not intersects("ip CIDR '10.0.0.0/8'", "ip CIDR '11.0.0.0/8'")
    assert not intersects("ip CIDR '10.0.0.0/8'", "ip CIDR '::/0'")
    text = "ip CIDR '10.0.0.0/8' AND ip NOT CIDR '10.4.0.0/16'"
    assert str(to_filter(text)) == text
    assert str(to_filter("ip CIDR '10.9.8.7/8'")) == "ip CIDR '10.0.0.0/8'"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "10.0.0.0",
        "10.0.0/8",
        "home/8",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/-1",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/٣",
        "010.0.0.0/8",
        "::ffff:10.0.0.0/104",
        "fe80::1%eth0/64",
        "1" * 1_000 + "/8",
    ],
)
def test_what_is_no_block_is_refused(text):
    with pytest.raises(SelectorError, match=r"is not a network|write it as one") as told:
        network_of(text)
    assert len(str(told.value)) < 200
