"""Hosts that are stopped, cut off, slow, killed and started again are one network afterwards, whatever is drawn.

Reference: promise 6; docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

import random

import pytest
from draws import slow, thorough
from patience import FrozenLoop, run_frozen
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from virtual_hosts import Lab

RECOVERY = Recovery(heartbeat_seconds=1.0, suspect_after_seconds=3.0, retention_seconds=8.0)
TREE = ClusterTree(3, 3, degree=2)
HOSTS = 3
SPREADS = (lambda broker: broker // 2 % HOSTS, lambda broker: broker % HOSTS, lambda broker: broker)
"""Which host a broker is on: some have members of a cluster together, some one of each, some a single broker."""
FAULTS_UNTIL = 40.0
HEALED_WITHIN = 60.0
STAYS_FOR = 12.0


class Faults:
    """What is drawn is done to the hosts, and ended; `done` says what and when."""

    def __init__(self, lab: Lab, rng: random.Random) -> None:
        self.lab, self.rng, self.done = lab, rng, list[str]()
        self._ends: list[tuple[float, str, tuple[int, ...]]] = []

    async def run(self) -> None:
        while self.lab.now() - self.lab.began < FAULTS_UNTIL:
            await self.lab.run(self.rng.choice((0.1, 0.3, 1.0, 2.0, 4.0)))
            for each in [each for each in self._ends if each[0] <= self.lab.now()]:
                await self._end(each)
            self._begin(
                self.rng.choice(("stop", "cut", "slow", "kill")), self.rng.sample(self.lab.hosts(), 2)
            )
        for each in list(self._ends):
            await self._end(each)

    def _begin(self, kind: str, drawn: list[int]) -> None:
        if any(set(drawn) & set(places) for _, _, places in self._ends):
            return
        places = tuple(drawn[:1] if kind in ("stop", "kill") else drawn)
        match kind:
            case "stop":
                self.lab.stop(*places)
            case "kill":
                self.lab.kill(*places)
            case "cut":
                self.lab.cut.add(places)
            case "slow":
                self.lab.slow[places] = self.rng.choice((0.5, 2.0))
        until = self.lab.now() + self.rng.choice((0.2, 0.5, 1.5, 2.5, 3.5, 6.0, 10.0))
        self._ends.append((until, kind, places))
        self.done.append(f"{self.lab.now():.2f} {kind} {places}")

    async def _end(self, each: tuple[float, str, tuple[int, ...]]) -> None:
        self._ends.remove(each)
        _, kind, places = each
        match kind:
            case "stop":
                self.lab.go_on(*places)
            case "kill":
                await self.lab.start_again(*places)
            case "cut":
                self.lab.cut.discard(places)
            case "slow":
                del self.lab.slow[places]
        self.done.append(f"{self.lab.now():.2f} end of {kind} {places}")


def check(scheme_name: str, seed: int) -> None:
    async def test(_: FrozenLoop) -> None:
        rng = random.Random(seed)
        positions = scheme(scheme_name, heals=True).positions(TREE.positions())
        lab = await Lab(positions, scheme_name, RECOVERY, rng.choice(SPREADS), seed).start()
        await lab.run(rng.choice((2.0, 12.0)))
        faults = Faults(lab, rng)
        await faults.run()
        assert await lab.run(HEALED_WITHIN, lambda: not lab.problems()), [*faults.done, *lab.problems()]
        await lab.run(STAYS_FOR)
        assert not lab.problems(), [*faults.done, *lab.problems()]

    run_frozen(test)


@pytest.mark.parametrize(("scheme_name", "seed"), [("hybrid", 20), ("hypercube", 0), slow("hybrid", 50)])
def test_one_network_afterwards(scheme_name: str, seed: int) -> None:
    """In two of these a heartbeat was lost for ever: seed 20 by another way to the same broker, 50 by a restart."""
    check(scheme_name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(5), *map(thorough, range(5, 20))])
@pytest.mark.parametrize("scheme_name", ["hybrid", "hierarchical+nodes", "hypercube", "lbdd"])
def test_one_network_afterwards_with_more_seeds(scheme_name: str, seed: int) -> None:
    check(scheme_name, seed)
