from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.simulator.hosts import Connection, Host
from rayvous.simulator.link_faults import LinkFaults


class Silent:
    handle = None


def make_link(ends, delay, model, seed):
    source, target = (Host(int(end), 0, lambda incarnation: Silent()) for end in ends.split("/"))
    link = Connection(source, target, delay, model, lambda *arrived: None, (seed, "unicast"))
    return lambda leaves: link.arrival(leaves, LinkFaults())


def test_a_plain_link_takes_its_delay():
    link = make_link("1/2", 0.5, LinkModel(), seed=0)
    assert [link(when) for when in (0.0, 1.0, 1.0)] == [0.5, 1.5, 1.5]


def test_a_spread_is_drawn_once_for_a_link():
    model = LinkModel(spread_seconds=1.0)
    links = [make_link(f"1/{other}", 0.5, model, seed=0) for other in range(20)]
    delays = [link(0.0) for link in links]
    assert len(set(delays)) == 20 and all(0.5 <= delay < 1.5 for delay in delays)
    assert [link(3.0) - 3.0 for link in links] == [round(delay + 3.0, 16) - 3.0 for delay in delays]


def test_a_message_never_overtakes_another_on_its_link():
    link = make_link("1/2", 0.1, LinkModel(jitter_seconds=5.0), seed=0)
    leaves = [number / 100 for number in range(500)]
    arrivals = [link(when) for when in leaves]
    assert arrivals == sorted(arrivals)
    assert all(arrives >= when + 0.1 for arrives, when in zip(arrivals, leaves, strict=True))
    assert len(set(arrivals)) > 3


def test_a_lossy_link_loses_about_its_share_and_delays_the_rest():
    link = make_link("1/2", 0.1, LinkModel(loss=0.25), seed=0)
    arrivals = [link(0.0) for _ in range(4000)]
    assert 850 < arrivals.count(None) < 1150
    assert {arrives for arrives in arrivals if arrives is not None} == {0.1}


def test_the_chance_of_a_link_is_its_own():
    model = LinkModel(jitter_seconds=1.0, loss=0.5)
    alone = make_link("1/2", 0.0, model, seed=7)
    expected = [alone(0.0) for _ in range(50)]
    one, other = make_link("1/2", 0.0, model, seed=7), make_link("2/1", 0.0, model, seed=7)
    mixed = [(one(0.0), other(0.0)) for _ in range(50)]
    assert [first for first, _ in mixed] == expected
    assert [second for _, second in mixed] != expected
    reseeded = make_link("1/2", 0.0, model, seed=8)
    assert [reseeded(0.0) for _ in range(50)] != expected
