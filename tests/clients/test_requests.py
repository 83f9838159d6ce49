"""Requests and replies: each request gets the first reply that is for it, beside a reference that is a list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.clients.requests import ADDRESS, REPLY_ID, REPLY_TO, RequestMachine, reply_to
from rayvous.protocol.errors import InputError, LimitReached, NotARequest
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "reply", "again", "give up"]), st.integers(0, 5), st.integers(1, 4))
)


@given(STEPS)
def test_a_request_gets_the_first_reply_in_time_and_every_other_one_is_counted(steps):
    machine = RequestMachine("/reply/x")
    asked, waiting, answered, dropped = [], {}, {}, 0
    for now, (what, which, number) in enumerate(steps):
        if what == "ask":
            wanted = to_filter("n > 2") if which % 2 else None
            id, event = machine.ask({"q": which}, now + number, wanted)
            asked.append((id, event))
            waiting[id] = now + number, wanted is not None
        elif asked:
            id, event = asked[which % len(asked)]
            if what == "give up":
                machine.give_up(id)
                waiting.pop(id, None)
                continue
            reply = reply_to(event, {"n": number})
            until, picky = waiting.get(id, (-1, False))
            fits = until >= now and (number > 2 or not picky)
            assert machine.came(reply, float(now)) == (id if fits else None)
            if fits:
                del waiting[id]
                assert answered.setdefault(id, reply) is reply, "once"
            else:
                dropped += 1
    assert machine.dropped == dropped and len(machine) == len(waiting)
    assert len({id for id, _ in asked}) == len(asked)


def test_they_work_over_any_publish_and_subscribe():
    machine, simulation = RequestMachine("/reply/me"), Simulation(ClusterTree(3, 2))
    simulation.run_until_installed("me", simulation.subscribe("me", 0, machine.replies))
    simulation.run_until_installed("server", simulation.subscribe("server", 5, "q > 0"))
    requests = [machine.ask({"q": q}, 60.0) for q in (1, 2)]
    simulation.publish("asker", 0, [event for _, event in requests])
    simulation.run()
    events = [simulation.account.publications()[each].event for each in simulation.notifications("server")]
    simulation.publish("answers", 5, [reply_to(event, {"a": 10 * event["q"]}) for event in reversed(events)])
    simulation.run()
    replies = [simulation.account.publications()[each].event for each in simulation.notifications("me")]
    assert [(machine.came(reply, 1.0), reply["a"]) for reply in replies] == [
        (requests[1][0], 20),
        (requests[0][0], 10),
    ]


def test_what_is_wrong_is_refused():
    machine = RequestMachine("/reply/x", in_flight_max=2)
    for name in (REPLY_TO, REPLY_ID):
        with pytest.raises(InputError, match=name):
            machine.ask({name: "y"}, 1.0)
    for _ in range(2):
        _, event = machine.ask({}, 1.0)
    with pytest.raises(LimitReached, match="in_flight_max"):
        machine.ask({}, 1.0)
    for name in (ADDRESS, REPLY_ID):
        with pytest.raises(InputError, match=name):
            reply_to(event, {name: "y"})
    for request in ({}, {REPLY_TO: 7, REPLY_ID: "x-1"}):
        with pytest.raises(NotARequest, match=REPLY_TO):
            reply_to(request, {})
    for id in (None, 7, "x-9"):
        assert machine.came({REPLY_ID: id}, 0.0) is None
    assert machine.dropped == 3 and machine.came({}, 0.0) is None
