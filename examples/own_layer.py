"""A layer of one's own: each broker counts what its publishers publish, by the value of one attribute.

    $ cd examples
    $ rayvous chaos --scheme hybrid+own_layer:Origins --stable --admission --operations --seeds 5
    $ python own_layer.py

It looks at events on their way in, changes nothing, is kept by a store, and knows of no other layer.
"""

from collections import Counter

from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.pubsub import Events

ATTRIBUTE = "origin"
VALUES_MAX = 1000


class Origins:
    """How many events of each origin were published at one broker; of the first thousand values that came."""

    def __init__(self, position):
        self.broker = position.broker
        self.counts = Counter()
        self.takes = {}  # messages of its own: none
        self.sees = {Events: self._on_events}  # what it looks at on its way in
        self.alters = {}  # what it looks at on its way out: nothing

    def _on_events(self, event):
        if isinstance(event.source, str) and not event.message.retransmitted:  # from a client, and for the first time
            for each in event.message.batch.events():
                value = each.get(ATTRIBUTE)
                if value in self.counts or len(self.counts) < VALUES_MAX:
                    self.counts[value] += 1
        return [Inward(event)]

    def changed_by(self, event):
        """Return whether a message can change what it keeps: then a store has to have it."""
        return isinstance(event.source, str) and type(event.message) is Events

    def snapshot(self):
        """Return all that it keeps, as plain data."""
        return {"counts": dict(self.counts)}

    def restore(self, plain):
        """Be as the one was whose snapshot that is."""
        self.counts = Counter(plain["counts"])

    def describe(self):
        """Return what `Inspection.describe` shows of it."""
        return {"origins": len(self.counts), "events_counted": sum(self.counts.values())}

    def check(self):
        """Assert its invariants, for tests."""
        assert len(self.counts) <= VALUES_MAX and all(count > 0 for count in self.counts.values())


def main():
    """Count a few events, in virtual time."""
    import rayvous as rv

    net = rv.Simulation(rv.ClusterTree(clusters=2, brokers_per_cluster=2).positions(), "hybrid+own_layer:Origins")
    net.publish("faa", 0, [{"origin": "JFK"}, {"origin": "LGA"}, {"origin": "JFK"}])
    net.run()
    print(net.broker(0).describe()["events_counted"], "events were counted")


if __name__ == "__main__":
    main()
