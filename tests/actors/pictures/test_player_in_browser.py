"""The player in a real browser, headless Chromium: it is whole, goes forward and back, and fetches nothing."""

import pytest
from rayvous.faults.stepping.frames import brokers_in, clients_in
from rayvous.faults.stepping.player import step
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation

pytestmark = pytest.mark.slow


def network(scheme="hybrid"):
    found = Simulation(ClusterTree(4, 3), scheme, recovery=Recovery.for_simulator())
    found.subscribe("alice", 4, "price > 10")
    for number in range(20):
        found.at(1.0 + number, found.publish, "exchange", 7, [{"price": number}])
    found.at(3.0, found.crash, 5)
    found.at(12.0, found.restart, 5)
    return found


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("player")
    one = step(network(), seconds=20.0, title="an election")
    two = step(network(), network("hypercube"), seconds=20.0)
    return {"one": one.save(folder / "one.html"), "two": two.save(folder / "two.html")}, one


def says(browser):
    return browser.evaluate("document.getElementById('says').textContent")


def press(browser, kind_or_id):
    chosen = (
        f"document.getElementById('{kind_or_id}') || document.querySelector('[data-kind=\"{kind_or_id}\"]')"
    )
    browser.evaluate(f"({chosen}).click() || 1")


def key(browser, name, shift="false"):
    pressed = f"new KeyboardEvent('keydown', {{key: '{name}', shiftKey: {shift}, bubbles: true}})"
    browser.evaluate(f"document.body.dispatchEvent({pressed})")


def slide(browser, seconds):
    slider = "const s = document.getElementById('slider')"
    browser.evaluate(f"(() => {{ {slider}; s.value = {1e6 * seconds}; s.oninput(); }})() || 1")


def drawn(browser):
    """Each broker as it is drawn: its classes and its place."""
    nodes = "[...document.querySelectorAll('svg[role=group] g.broker')]"
    return browser.evaluate(
        f"{nodes}.map(g => [g.dataset.broker, g.className.baseVal, g.getAttribute('transform')])"
    )


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole(browser, paths, name, width, scheme):
    path = paths[0][name]
    browser.open(path.as_uri(), width, scheme)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert len(drawn(browser)) == 13 * (2 if name == "two" else 1)
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(18, 22, 28)") == (scheme == "dark")
    controls = "[...document.querySelectorAll('button, input, g[role=button]')]"
    nameless = "!each.getAttribute('aria-label') && !each.textContent.trim() && !each.closest('label')"
    assert browser.evaluate(f"{controls}.filter(each => {nameless}).length") == 0
    small = "[...document.querySelectorAll('.controls button')].filter(each => each.offsetHeight < 30).length"
    assert browser.evaluate(small) == 0, "a button that a finger cannot hit"
    assert browser.said() == []
    assert browser.requested() == [path.as_uri()]


def test_buttons_go_to_the_next_of_a_kind_and_back_the_same_way(browser, paths):
    found, player = paths
    browser.open(found["one"].as_uri(), 1280)
    start = says(browser), drawn(browser)
    press(browser, "death")
    assert (
        says(browser)
        == "3.0000 s broker 5 dies"
        == f"{player.at(0.0).to('death').place.at_seconds:.4f} s broker 5 dies"
    )
    assert ["5", "broker dead now", "translate(84 135)"][:1] == [
        each[0] for each in drawn(browser) if "dead" in each[1]
    ]
    died = says(browser), drawn(browser)
    press(browser, "election")
    player.to("election")
    assert says(browser) == f"{player.place.at_seconds:.4f} s {player.then().moment.text}"
    roles = {each[0]: each[1].split()[1] for each in drawn(browser)}
    assert roles["4"] == "designated" and roles["3"] == "member"
    assert browser.evaluate("document.body.dataset.kinds").split() == ["message", "tick", "election", "loss"]
    assert "JoinRequest" in browser.evaluate("document.querySelector('#runs').textContent")
    key(browser, "ArrowRight")
    key(browser, "ArrowLeft")
    key(browser, "d", "true")
    assert (says(browser), drawn(browser)) == died, "the same state on the way back"
    press(browser, "first")
    assert (says(browser), drawn(browser)) == start


def test_every_moment_of_the_page_is_that_of_the_player(browser, paths):
    found, player = paths
    browser.open(found["one"].as_uri(), 1280)
    slide(browser, 2.9)
    clients = (
        "[...document.querySelectorAll('.runs table')].filter(each => each.textContent.startsWith('client'))"
    )
    clients = f"[...{clients}[0].rows].slice(1)"
    player.at(2.9)
    for _ in range(40):
        press(browser, "forward")
        player.forward()
        assert says(browser) == f"{player.place.at_seconds:.4f} s {player.then().moment.text}"
        frame = player.then().frame
        expected = {
            str(broker): (
                f"{then.role} {then.state}".split(),
                "translate({} {})".format(*frame[f"p{broker}"]),
            )
            for broker, then in brokers_in(frame)
            if broker >= 0
        }
        shown = {
            broker: ([each for each in classes.split()[1:] if each != "now"], place)
            for broker, classes, place in drawn(browser)
            if broker != "-2"
        }
        assert shown == expected
        rows = browser.evaluate(f"{clients}.map(row => [...row.cells].map(cell => cell.textContent))")
        assert [row[:2] for row in rows] == [[name, str(then.home)] for name, then in clients_in(frame)]
        assert rows[0][3] == "".join(f"given {name}:{number}" for name, number in frame["calice"].given)


def test_the_slider_and_play_and_the_choice_of_a_broker(browser, paths):
    browser.open(paths[0]["one"].as_uri(), 1280)
    slide(browser, 12.5)
    assert browser.evaluate("document.getElementById('clock').textContent") == "12.500 s"
    assert not [each for each in drawn(browser) if "dead" in each[1]], "it was started again at 12 s"
    press(browser, "play")
    here = browser.evaluate("document.body.dataset.here")
    browser.until(f"document.body.dataset.here !== '{here}'")
    press(browser, "play")
    assert browser.evaluate("document.getElementById('play').getAttribute('aria-label')") == "play"
    chosen = "document.querySelector('g.broker[data-broker=\"8\"]')"
    browser.evaluate(f"{chosen}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}))")
    assert browser.evaluate(f"{chosen}.getAttribute('aria-pressed')") == "true"
    assert "Broker 8 (chosen" in browser.evaluate("document.querySelector('#runs').textContent")
    press(browser, "last")
    assert browser.evaluate("document.getElementById('forward').disabled")


def test_the_broker_that_is_shown_is_that_of_the_moment_also_when_it_is_of_a_client(browser, paths):
    def shown():
        return browser.evaluate("document.querySelector('#runs').textContent")

    browser.open(paths[0]["one"].as_uri(), 1280)
    slide(browser, 0.99)
    press(browser, "client")
    assert "exchange publishes" in says(browser) and "Broker 7" in shown()
    press(browser, "death")
    assert "Broker 5" in shown()


def test_two_runs_go_on_together(browser, paths):
    browser.open(paths[0]["two"].as_uri(), 1280)
    press(browser, "death")
    assert says(browser).startswith("hybrid, 3.0000 s")
    press(browser, "death")
    assert says(browser).startswith("hypercube, 3.0000 s")
    dead = [each for each in drawn(browser) if "dead" in each[1]]
    assert [each[0] for each in dead] == ["5", "5"]
    press(browser, "view")
    assert "has view 2: 11 brokers" in says(browser)


def test_a_client_with_the_name_of_a_process_is_a_client_and_where_nothing_happens_heartbeats_are_shown(
    browser, tmp_path
):
    """A page names brokers by number, and the rendezvous point by -2: neither is a client's name."""
    found = Simulation(ClusterTree(2, 2), recovery=Recovery.for_simulator())
    for name, broker in (("-2", 3), ("0", 2)):
        found.subscribe(name, broker, "price > 10")
        found.at(1.0, found.publish, f"p{broker}", broker, [{"price": 11}])
    browser.open(step(found, seconds=5.0).save(tmp_path / "names.html").as_uri(), 1280)
    for name in ("-2", "0"):
        press(browser, "notification")
        assert name in says(browser) and " now" not in str(drawn(browser)), "no process is lit"
    assert browser.evaluate("document.getElementById('all').checked") is False

    calm = Simulation(ClusterTree(2, 1), recovery=Recovery.for_simulator())
    calm.advance_to(10.0)
    player = step(calm, seconds=5.0)
    assert player.forward().place.at_seconds < 14.0 and len(player.story()) == len(player) > 5
    browser.open(player.at(0.0).save(tmp_path / "calm.html").as_uri(), 1280)
    assert browser.evaluate("document.getElementById('all').checked")
    before = says(browser)
    press(browser, "forward")
    assert says(browser) != before
