"""Names by which a gateway may be addressed. Pages of other hosts: tests/gateway/http."""

import pytest
from rayvous.gateway.origins import OtherHost, check_host
from rayvous.gateway.serving import names_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.gateways import GatewayConfig


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("127.0.0.1:8080", ()),
        ("10.1.2.3", ()),
        ("[::1]:8080", ()),
        ("[fe80::1]", ()),
        ("::1", ()),
        ("localhost:8080", ()),
        ("LocalHost.", ()),
        ("Events.Example.org:443", ("events.example.org",)),
        ("events.example.org", ("EVENTS.example.org.",)),
        ("events.example.org:", ("events.example.org",)),
        ("a.b.example.org", ("*.example.org",)),
        ("anything", ("*",)),
    ],
)
def test_a_gateway_is_addressed_by_an_address_or_one_of_its_names(host, hosts):
    check_host(host, hosts)


@pytest.mark.parametrize(
    ("host", "hosts"),
    [
        ("evil.example", ()),
        ("evil.example:8080", ("gateway",)),
        ("127.0.0.1.evil.example", ()),
        ("localhost.evil.example", ()),
        ("me@127.0.0.1", ()),
        ("example.org", ("*.example.org",)),
        ("evilexample.org", ("*.example.org",)),
        ("gateway:80:80", ("gateway",)),
        ("1", ("gateway",)),
        ("", ("gateway",)),
        ("a b", ()),
    ],
)
def test_any_other_name_may_have_been_rebound(host, hosts):
    with pytest.raises(OtherHost, match=r"list it in hosts of \[gateway\], or give --allow-host"):
        check_host(host, hosts)


def test_the_names_of_a_gateway_are_those_of_its_file_and_its_own():
    names = names_of(GatewayConfig(http="gateway.example:8080", hosts=("events.example.org",)))
    assert names[:2] == ("events.example.org", "gateway.example") and len(names) == 3


@pytest.mark.parametrize("name", ["https://a.example", "a.example:80", "", "*.", "a.*", "a b", "**"])
def test_a_host_in_a_file_is_a_name(name):
    with pytest.raises(InputError, match="gateway hosts"):
        GatewayConfig(hosts=(name,)).validate()
