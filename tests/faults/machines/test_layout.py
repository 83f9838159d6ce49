"""The plan of hosts on one machine: what is created, by which commands, and how traffic of links is read."""

import json

import pytest
from rayvous.faults.machines.layout import Layout
from rayvous.faults.machines.links import Crossed, counts
from rayvous.protocol.errors import InputError


def words(layout):
    return [" ".join(command) for command in layout.building()]


def test_every_link_is_held_to_the_bandwidth_in_both_directions():
    """Reference: paper 5, section 4.1, at the rate that its times need."""
    made = words(Layout(12, 100))
    shaped = [line for line in made if "tbf" in line]
    assert len(shaped) == 24 and all("tbf rate 100000000bit " in line for line in shaped)
    for host in range(12):
        assert sum(f"dev port-{host} " in line for line in shaped) == 1
        assert sum(f"-n host-{host} " in line for line in shaped) == 1
    assert not [line for line in words(Layout(12)) if line.startswith("tc")]


def test_a_link_is_made_bad_at_both_ends_and_good_again():
    layout = Layout(3, 100)
    bad, good = ([" ".join(command) for command in layout.changing(1, *what)] for what in ((2, 0.25), ()))
    for end in ("tc qdisc replace dev port-1 root", "tc -n host-1 qdisc replace dev eth0 root"):
        assert [line for line in bad if line.startswith(f"{end} tbf rate 2000000bit ")]
        assert [line for line in good if line.startswith(f"{end} tbf rate 100000000bit ")]
    assert sum(f" {2**30}," in line for line in bad) == 2  # a quarter of the 32-bit numbers
    assert sum("filter del" in line for line in good) == 2 and not [line for line in good if "bpf" in line]
    assert [" ".join(command) for command in layout.cutting(1)] == ["ip link set port-1 down"]
    assert good[0] == "ip link set port-1 up"


def test_hosts_have_names_and_addresses_of_their_own_and_devices_that_linux_takes():
    layout = Layout(100, 1)
    assert len({layout.address(host) for host in range(100)}) == 100
    assert len({layout.name(host) for host in range(100)}) == 100
    assert max(len(layout.port(host)) for host in range(100)) <= 15


def test_no_command_leads_out_of_the_hosts():
    """The machine's own network is not used: there is no route, and no outside device is on the switch."""
    made = words(Layout(5, 10))
    assert not [line for line in made if "route" in line or "netns 1" in line]
    on_the_switch = [line.split()[3] for line in made if " master " in line]
    created = [line.split()[3] for line in made if " type veth " in line]
    assert on_the_switch == created == [f"port-{host}" for host in range(5)]


def test_a_head_and_others_that_join_it():
    layout = Layout(3, 100)
    head, other = layout.ray_start(0, "python"), layout.ray_start(2, "python")
    assert head[:5] == ("ip", "netns", "exec", "host-0", "python") and "--head" in head
    assert other[3] == "host-2" and f"--address={layout.address(0)}:6379" in other
    assert "--node-ip-address=10.3.17.3" in other and "--head" not in other


def test_a_layout_survives_as_text():
    for layout in (Layout(3), Layout(12, 2.5)):
        assert Layout.from_json(layout.to_json()) == layout


@pytest.mark.parametrize(
    ("hosts", "rate", "said"),
    [
        (0, 1, "hosts is 0"),
        (101, 1, "at most 100"),
        (2, 0, "from 0.1"),
        (2, -1, "0 or more"),
        (2, 1e9, "from 0.1"),
    ],
)
def test_what_no_hosts_can_be_is_refused(hosts, rate, said):
    with pytest.raises(InputError, match=said):
        Layout(hosts, rate).validate()


def test_what_a_host_sends_is_what_its_port_receives():
    shown = [
        {"ifname": "switch", "stats64": {"rx": {"bytes": 9}, "tx": {"bytes": 9}}},
        {"ifname": "port-1", "stats64": {"rx": {"bytes": 3}, "tx": {"bytes": 4}}},
        {"ifname": "port-0", "stats64": {"rx": {"bytes": 1}, "tx": {"bytes": 2}}},
    ]
    assert counts(Layout(2), json.dumps(shown)) == [Crossed(sent=1, received=2), Crossed(sent=3, received=4)]
