"""Brokers with one error each: chaos finds every one within the given number of seeds.

The networks are small (at most 8 brokers, 8 seconds of faults), and the seeds 0, 1, 2, ... are tried until
one fails. It has to violate the condition that is given.

Mutants that clients cannot notice are in ``tests/test_mutants.py``: a successor without its copy of what the
children want (they announce it again), and a parent that keeps what children withdraw (it sends them more
than they want).
"""

from dataclasses import replace

import numpy as np
import pytest
from rayvous.broker import Broker
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.simulated.chaos import run_case
from rayvous.protocol.effects import Deliver, Multicast, Received, Send
from rayvous.protocol.messages.pubsub import Cancel, Events
from rayvous.protocol.messages.recovery import JoinRequest, Wants
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.replay.replay import Replay

SMALL = {"brokers_max": 8, "seconds": 8.0, "faults_max": 3}


def made(change):
    """Return a factory of brokers to each of which `change` is applied."""

    def make(position, scheme, recovery, incarnation, seed):
        broker = Broker(position, scheme, recovery=recovery, incarnation=incarnation, seed=seed)
        change(broker)
        return broker

    return make


def on_input(broker, edit):
    """Make a broker handle `edit(event)` instead of each event; None is ignored."""
    inner = broker.handle

    def handle(event):
        event = edit(event)
        return [] if event is None else inner(event)

    broker.handle = handle


def on_effects(broker, edit):
    """Make a broker return `edit(effect)`, a list, instead of each effect."""
    inner = broker.handle
    broker.handle = lambda event: [item for effect in inner(event) for item in edit(effect)]


# In networks that heal.


def skip_dedup(broker):
    broker.layer(Replay).deduplicator.admit = lambda client, batch, rows, *, accepted: rows


def forget_what_a_moved_client_has_had(broker):
    broker.layer(Replay).deduplicator.resume = lambda client, marks, since: None


def pass_closed_links(broker):
    broker.layer(HealingBroker).rounds.passes = lambda link, number: True


def send_nothing_again(broker):
    broker.layer(HealingBroker).rounds.kept = list


def forget_one_filter_of_who_joins(broker):
    def edit(event):
        if isinstance(event, Received) and isinstance(event.message, JoinRequest) and event.message.filters:
            return replace(event, message=replace(event.message, filters=event.message.filters[1:]))
        return event

    on_input(broker, edit)


def forget_one_filter_at_succession(broker):
    """Leave one filter out of what a member tells a new designated broker."""

    def edit(effect):
        if isinstance(effect, Multicast) and isinstance(effect.message, Wants) and effect.message.filters:
            return [Multicast(replace(effect.message, filters=effect.message.filters[1:]))]
        return [effect]

    on_effects(broker, edit)


# In networks that do not heal.


def send_twice(broker):
    def edit(effect):
        twice = isinstance(effect, Send) and isinstance(effect.message, Events)
        return [effect, effect] if twice else [effect]

    on_effects(broker, edit)


def ignore_cancels(broker):
    on_input(
        broker,
        lambda event: None if isinstance(event, Received) and isinstance(event.message, Cancel) else event,
    )


def deliver_to_everybody(broker):
    """Deliver to each of several clients all events that any of them wants."""

    def edit(effect):
        if not isinstance(effect, Deliver) or len(effect.clients) < 2:
            return [effect]
        every = np.unique(effect.rows)
        starts = np.arange(len(effect.clients) + 1) * len(every)
        return [Deliver(effect.batch, effect.clients, starts, np.tile(every, len(effect.clients)))]

    on_effects(broker, edit)


def renumber(broker):
    def edit(effect):
        if isinstance(effect, Deliver):
            batch = replace(effect.batch, sequence=effect.batch.sequence + 100_000)
            return [Deliver(batch, effect.clients, effect.starts, effect.rows)]
        return [effect]

    on_effects(broker, edit)


def deliver_backwards(broker):
    def edit(effect):
        if not isinstance(effect, Deliver):
            return [effect]
        rows = effect.rows.copy()
        for start, end in zip(effect.starts[:-1], effect.starts[1:], strict=True):
            rows[start:end] = rows[start:end][::-1]
        return [Deliver(effect.batch, effect.clients, effect.starts, rows)]

    on_effects(broker, edit)


def test_what_is_not_let_go_is_found_in_the_tables():
    """Even before a client is notified of what it no longer wants. Reference: paper 1, 4.2.2."""
    reports = (
        run_case(draw_case(seed, heals=False, **SMALL), broker=made(ignore_cancels)) for seed in range(1, 3)
    )
    assert any("too much [" in problem for report in reports for problem in report.problems)


@pytest.mark.parametrize(
    ("change", "heals", "condition", "seeds"),
    [
        (skip_dedup, True, "once", 1),
        (forget_what_a_moved_client_has_had, True, "once", 4),
        pytest.param(pass_closed_links, True, "complete", 15, marks=pytest.mark.slow),
        (send_nothing_again, True, "complete", 1),
        (forget_one_filter_of_who_joins, True, "complete", 1),
        (forget_one_filter_at_succession, True, "complete", 4),
        (send_twice, False, "once", 1),
        (deliver_to_everybody, False, "wanted", 1),
        (renumber, False, "published", 1),
        (deliver_backwards, False, "ordered", 1),
    ],
)
def test_chaos_finds_what_is_wrong_with_a_broker(change, heals, condition, seeds):
    for seed in range(seeds):
        report = run_case(draw_case(seed, heals=heals, **SMALL), broker=made(change))
        if condition in report.verdict.violated:
            assert not report.holds and report.verdict.findings[condition].violations[0].piece.operations
            return
    pytest.fail(f"not noticed within {seeds} seeds")


def test_those_seeds_hold_with_brokers_that_are_right():
    for seed in range(4):
        for heals in (True, False):
            assert run_case(draw_case(seed, heals=heals, **SMALL)).holds
