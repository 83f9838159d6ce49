"""A routing scheme of one's own: brokers in a row, each event goes to its left and to its right as far as it is wanted.

    $ cd examples
    $ rayvous chaos --scheme own_scheme:Row --stable --admission --operations --seeds 5
    $ python own_scheme.py

Everything else is that of every scheme: healing, stores, durable clients, admission control, operations, both hosts.
"""

from dataclasses import replace

import numpy as np
from rayvous.protocol.effects import Deliver, Send
from rayvous.routing.schemes.claims import Claims
from rayvous.routing.schemes.mesh import MeshRouter
from rayvous.routing.schemes.viewed import ViewedRouter


class Row(ViewedRouter):
    """One broker of a row, in the order of their ids; `ViewedRouter` tells all brokers what each of them wants."""

    claims = Claims(wanted_only=True)
    positions = staticmethod(MeshRouter.positions)

    def enter(self, view):
        """Take the place that a new view gives."""
        super().enter(view)
        row = sorted(view.born)
        at = row.index(self.me)
        self.sides = [side for side in (row[:at][::-1], row[at + 1 :]) if side]  # the nearest first

    def neighbours(self):
        """Return the next ones on both sides; nobody before the first view."""
        return [] if self.view is None else [side[0] for side in self.sides]

    def onwards(self, source):
        """Return to whom a change goes on that came from `source`."""
        return [other for other in self.neighbours() if other != source]

    def behind(self, origin):
        """Return to whom goes on what is for everybody and began at `origin`."""
        return [] if self.view is None else [side[0] for side in self.sides if origin not in side]

    def _on_events(self, source, message):
        here = self.table.route(message.batch)
        effects = [Deliver(message.batch, here.clients, here.starts, here.rows)] if here.clients else []
        wanted = dict(self.others.route(message.batch).links)  # which rows each broker wants; None for all
        for side in self.sides:
            if side[0] != source and not wanted.keys().isdisjoint(side):
                hits = np.zeros(len(message.batch), bool)
                for broker in wanted.keys() & side:
                    hits[slice(None) if wanted[broker] is None else wanted[broker]] = True
                batch = message.batch.take(np.flatnonzero(hits))
                effects.append(Send(side[0], replace(message, batch=batch)))
        return effects

    @staticmethod
    def joined(view):
        """Return who is joined to whom and the ways of events, for the judge of the books of admission control."""
        row = sorted(view.born)
        links = {here: {*row[max(at - 1, 0) : at], *row[at + 1 : at + 2]} for at, here in enumerate(row)}

        def way(source, to):
            one, other = sorted((row.index(source), row.index(to)))
            return row[one : other + 1][:: 1 if source <= to else -1]

        return links, way


def main():
    """Publish from one end of a row to the other, in virtual time."""
    import rayvous as rv

    net = rv.Simulation(rv.ClusterTree(clusters=2, brokers_per_cluster=2).positions(), "own_scheme:Row")
    net.run_until_installed("alice", net.subscribe("alice", 3, "price > 10"))
    net.publish("bob", 0, [{"price": 12}, {"price": 8}])
    net.run()
    print("alice was notified of", net.notifications("alice"))


if __name__ == "__main__":
    main()
