"""Names of actors: what an operator reads in Ray's views."""

from rayvous.actors.network.directory import collector_name, host_name, rendezvous_name


def test_names_begin_with_the_network_and_say_what_it_is():
    assert rendezvous_name("flights") == "flights:rendezvous"
    assert collector_name("flights") == "flights:collector"
    assert host_name("flights", [3]) == "flights:broker:3"
    assert host_name("flights", [3], 2) == "flights:broker:3:life:2"
    assert host_name("flights", [0, 1, 2]) == "flights:brokers:0-2"


def test_names_of_networks_that_look_alike_differ():
    names = [
        make(network)
        for network in ("a", "a:rendezvous", "a:collector", "a:broker:1")
        for make in (rendezvous_name, collector_name, lambda network: host_name(network, [1]))
    ]
    assert len(set(names)) == len(names)
