"""How the status of a network is printed."""

from dataclasses import replace

from rayvous.actors.network.gateways import GatewayStatus
from rayvous.actors.network.status import BrokerStatus, NetworkStatus
from rayvous.cli.status_view import status_view
from rayvous.protocol.durables import DurableStatus
from rayvous.protocol.sinks import SinkStatus
from rich.console import Console

SIZES = {
    "subscribers": 2, "filters": 5, "outbox_events": 7, "lost_events": 1, "shed_notifications": 2, "events_in": 100,
    "events_out": 40, "notifications": 10,
}  # fmt: skip


def broker(number, cluster, role, *, state="alive", parent=None, children=(), events=100):
    sizes = {} if state != "alive" else {**SIZES, "events_in": events}
    return BrokerStatus(number, f"B{number}", cluster, role, state, parent, children, sizes, {}, None)


def network(*brokers, problems=(), heals=True, at=1.0, latencies=None):
    return NetworkStatus("flights", "hybrid", heals, at, brokers, problems, latencies or {})


TREE = (
    broker(0, 0, "NEB"), broker(1, 0, "REB", children=(3,)), broker(2, 1, "NEB"), broker(3, 1, "DEB", parent=1),
)  # fmt: skip


def printed(status, rates=None, **options):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(status_view(status, rates or {}, **options))
    return capture.get()


def test_rates_are_differences_over_time_and_no_broker_that_began_again_has_a_negative_one():
    before = network(broker(0, 0, "REB"), broker(1, 0, "NEB", state="dead"))
    now = network(broker(0, 0, "REB", events=150), broker(1, 0, "NEB"), at=3.0)
    assert now.rates(before) == {0: {"events_in": 25.0, "events_out": 0.0, "notifications": 0.0}}
    assert before.rates(network(broker(0, 0, "REB", events=500), at=0.0))[0]["events_in"] == 0
    made = now.to_dict(now.rates(before))
    assert made["brokers"][0]["rates"]["events_in"] == 25.0 and made["brokers"][1]["rates"] is None


def test_the_first_line_says_where_no_channel_could_be_opened():
    assert "channel" not in printed(network(*TREE))
    slow = replace(TREE[0], sizes=TREE[0].sizes | {"hosts_by_channel": 2, "hosts_by_ray": 1})
    status = network(slow, *TREE[1:])
    assert "healthy; 1 brokers have no channel to some other" in " ".join(printed(status).split())
    assert "here is no channel to 3 of them" in " ".join(printed(replace(status, hosts_by_ray=3)).split())


def test_the_first_line_says_how_it_is():
    dead = broker(3, 1, "DEB", state="dead")
    silent = broker(3, 1, "DEB", state="silent")
    assert "4 brokers in 2 clusters, healthy" in printed(network(*TREE))
    assert "healing for 2.5 s" in printed(network(*TREE, problems=("no root",)), healing_seconds=2.5)
    assert "whole without broker 3" in printed(network(*TREE[:3], dead))
    assert "broken, and does not heal" in printed(
        network(*TREE[:3], silent, heals=False, problems=("silent",))
    )
    assert not network(*TREE[:3], silent).healthy
    assert "healthy; latency p50 0.1 ms, p99 1.9 ms" in " ".join(
        printed(network(*TREE, latencies={0: 90, 31: 10})).split()
    )


def test_the_tree_has_each_cluster_once_and_a_row_tells_what_a_broker_does():
    text = printed(network(*TREE), {1: {"events_in": 1234.0, "events_out": 2.5, "notifications": 0.0}})
    assert "REB 1  NEB 0\n└── DEB 3  NEB 2" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("1      REB"))
    assert row == ["1", "REB", "alive", "2", "5", "1,234", "2.5", "0", "7", "3"]
    assert max(map(len, text.splitlines())) <= 80


def test_who_is_dead_is_in_no_tree_that_heals_and_has_no_role():
    text = printed(network(*TREE[:3], broker(3, 1, "DEB", state="dead")))
    assert "└──" not in text and "3      -    dead" in text


def test_the_busiest_come_first_and_only_so_many_have_room():
    rates = {2: {"events_in": 9.0}, 3: {"events_in": 90.0}}
    rows = [
        line
        for line in printed(network(*TREE), rates, order="load", rows=2).splitlines()
        if line[0] in "0123."
    ]
    assert [row.split()[0] for row in rows] == ["3", "2", "..."] and "2 more" in rows[2]
    assert printed(network(*TREE, problems=tuple("abcdefgh"))).count("and 3 more") == 1


def test_each_gateway_has_a_row_with_where_it_is_or_why_it_is_not_and_is_no_matter_of_health():
    gateways = (
        GatewayStatus("a" * 56, "10.0.0.1", 0, "serving", ("http://10.0.0.1:8080",)),
        GatewayStatus("b" * 56, "10.0.0.2", 1, "failed", problem="gateway http: Address already in use"),
    )
    status = replace(network(*TREE), gateways=gateways)
    rows = [line.split() for line in printed(status).splitlines() if line.startswith("10.")]
    assert rows[0] == ["10.0.0.1", "aaaaaaaa", "serving", "http://10.0.0.1:8080"]
    assert rows[1][:4] == ["10.0.0.2", "bbbbbbbb", "1", "failed"] and "Address already in use" in " ".join(
        rows[1]
    )
    assert status.healthy and status.to_dict()["gateways"][1]["state"] == "failed"


def test_a_broker_is_named_by_its_number_and_its_present_role():
    """Its label is a place of the beginning: after healing the broker labelled REB may be a member."""
    one, other = replace(broker(0, 0, "NEB"), label="REB"), replace(broker(1, 0, "REB"), label="D1")
    text = printed(network(one, other, *TREE[2:]))
    assert "REB 1  NEB 0" in text and "D1" not in text
    assert (one.name, other.name, replace(other, state="dead").name) == ("NEB 0", "REB 1", "1")


def test_what_others_wrote_is_one_line_without_controls():
    told = "subscriber 'a\n\u202eb\x1b[2J' waits"
    status = network(*TREE, problems=(told,))
    gateway = GatewayStatus("a" * 56, "10.0.0.1", 0, "failed", problem=told)
    for text in (printed(status), printed(replace(status, gateways=(gateway,), problems=()))):
        assert r"a\n\u202eb\x1b[2J" in " ".join(text.split())


def test_a_collector_that_is_gone_is_shown_and_does_not_make_a_network_unhealthy():
    gone = replace(network(*TREE), collector="dead")
    assert "the collector of telemetry is dead: what brokers record is not collected" in printed(gone)
    assert "healthy" in printed(gone) and gone.to_dict()["collector"] == "dead"
    assert "collector" not in printed(network(*TREE))


def test_a_sink_has_a_row_with_what_it_has_written_and_why_it_waits():
    sinks = (
        SinkStatus("lake", "/data/lake", "writing", events=12_480, files=3, bytes=2_000_000, waiting=104),
        SinkStatus("late", "/data/late", "waiting", "/data/late: No space\x1b left"),
    )
    status = replace(network(*TREE), sinks=sinks)
    text = " ".join(printed(status).split())
    assert "lake writing 12,480 3 2 104 0 /data/lake" in text
    assert "late waiting 0 0 0 0 0 /data/late: No space\\x1b left" in text
    assert status.healthy and status.to_dict()["sinks"][1]["state"] == "waiting"


def test_a_durable_subscriber_has_a_row_with_where_it_is_and_how_far_it_is_behind():
    durables = (
        DurableStatus("workers", 3, True, 0.0, 12_480, 6_100_000, 41.0),
        DurableStatus("al\x1bice", 0, False, 310.0, 96, 100_000, 309.0),
        DurableStatus("bob", None, False, 12.0),
    )
    status = replace(network(*TREE), durables=durables)
    text = " ".join(printed(status).split())
    assert "workers 3 attached 12,480 41 6.1" in text
    assert "al\\x1bice 0 away 310 s 96 309 0.1" in text and "bob - away 12 s - - -" in text
    assert status.healthy and status.to_dict()["durables"][1]["away_seconds"] == 310.0
