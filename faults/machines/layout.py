"""The plan of a few hosts on one machine: their names, addresses, links, and the commands that make them.

Rules
-----
* Pure: commands are returned and not run. `ip` and `tc` are those of iproute2.
* All hosts are on one switch, a bridge. The switch is in the namespace of the first process, each host in one of
  its own.
* A host's link is a pair of devices: ``eth0`` in the host, and its port at the switch. Each device limits the
  bandwidth of what leaves it, so together they limit both directions.
* A bad link is bad at both ends. It is slow by its bandwidth. It loses packets at random, in a filter of four
  instructions that the kernel runs for each packet (a classic BPF program: ``ld rand``), since few kernels have
  `netem`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

from ...protocol import checks
from ...protocol.errors import InputError

Words: TypeAlias = tuple[str, ...]
"""A command as a tuple of words."""

HOSTS_MAX: Final = 100
RAY_FOLDER: Final = "/tmp/ray"
RAY_PORT: Final = 6379
STORE_BYTES: Final = 200 << 20
"""The size of Ray's object store on each host."""

HEALTH: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}
"""Ray's health check of nodes in runs that cut links. Its defaults are 5 s, 3 s, 10 s and 5: a cut then takes a
minute."""

GIVES_UP_SECONDS: Final = 8.0
"""The maximum time until Ray then gives up a node: three failed checks, a second apart and a second long each."""

BURST_BYTES: Final = 131_072
"""What a link passes at once: more than the largest segment that the kernel hands to a device."""

QUEUE_MILLISECONDS: Final = 50
"""How long a packet waits for its link before it is dropped: about what a small switch buffers."""

MEGABITS_MAX: Final = 100_000

RANDOM_WORD: Final = 0xFFFFF038
"""Where a classic BPF program loads a random number from: SKF_AD_OFF + SKF_AD_RANDOM."""

SHOT: Final = 2
UNDECIDED: Final = 0xFFFFFFFF
"""The verdicts of a filter on a packet: drop it (`SHOT`), or leave the decision to what comes next."""

DEVICE: Final = "eth0"
SWITCH: Final = "switch"
NETWORK: Final = "10.3.17"
"""That of paper 5's twelve computers; it is visible inside only."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A few hosts on one switch.

    Attributes
    ----------
    hosts
        The number of hosts.
    megabits_per_second
        The bandwidth of each link in each direction; None for no limit.
    """

    hosts: int
    megabits_per_second: float | None = None

    def validate(self) -> Layout:
        """Return the layout itself.

        Raises
        ------
        InputError
            If there are too few or too many hosts, or the bandwidth is out of range.
        """
        checks.whole_number("hosts", self.hosts, 1)
        if self.hosts > HOSTS_MAX:
            raise InputError(f"hosts is {self.hosts}: it must be at most {HOSTS_MAX}")
        if self.megabits_per_second is not None:
            rate = checks.number("megabits_per_second", self.megabits_per_second)
            if not 0.1 <= rate <= MEGABITS_MAX:
                raise InputError(f"megabits_per_second is {rate:g}: it must be from 0.1 to 100,000")
        return self

    def to_json(self) -> str:
        """Return the layout as text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Layout:
        """Return the layout that `to_json` has written."""
        return Layout(**json.loads(text)).validate()

    def name(self, host: int) -> str:
        """Return the name of a host's namespace."""
        return f"host-{host}"

    def port(self, host: int) -> str:
        """Return the name of a host's port at the switch."""
        return f"port-{host}"

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"{NETWORK}.{host + 1}"

    @property
    def ray_address(self) -> str:
        """Where a Ray node or driver finds the cluster."""
        return f"{self.address(0)}:{RAY_PORT}"

    def building(self) -> Iterator[Words]:
        """Yield the commands that make the switch and all hosts, for the namespace of the switch."""
        yield "ip", "link", "set", "lo", "up"
        yield "ip", "link", "add", SWITCH, "type", "bridge"
        yield "ip", "link", "set", SWITCH, "up"
        for host in range(self.hosts):
            name, port = self.name(host), self.port(host)
            yield "ip", "netns", "add", name
            yield "ip", "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", name
            yield "ip", "link", "set", port, "master", SWITCH, "up"
            yield "ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", DEVICE
            yield "ip", "-n", name, "link", "set", "lo", "up"
            yield "ip", "-n", name, "link", "set", DEVICE, "up"
            if self.megabits_per_second is not None:
                yield "tc", "qdisc", "add", "dev", port, "root", *self._bandwidth()
                yield "tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", *self._bandwidth()

    def _bandwidth(self, megabits_per_second: float | None = None) -> Words:
        megabits = megabits_per_second or self.megabits_per_second or MEGABITS_MAX
        rate = ("rate", f"{round(megabits * 1e6)}bit")
        return "tbf", *rate, "burst", f"{BURST_BYTES}", "latency", f"{QUEUE_MILLISECONDS}ms"

    def cutting(self, host: int) -> Iterator[Words]:
        """Yield the command that cuts a host's link, as if its cable were pulled."""
        yield "ip", "link", "set", self.port(host), "down"

    def changing(
        self, host: int, megabits_per_second: float | None = None, drop: float = 0.0
    ) -> Iterator[Words]:
        """Yield the commands that set a host's bandwidth and packet loss; by default, those of the initial link."""
        yield "ip", "link", "set", self.port(host), "up"
        for tc, device in ((("tc",), self.port(host)), (("tc", "-n", self.name(host)), DEVICE)):
            yield *tc, "qdisc", "replace", "dev", device, "root", *self._bandwidth(megabits_per_second)
            yield *tc, "qdisc", "replace", "dev", device, "clsact"
            if drop:
                lost = f"4,32 0 0 {RANDOM_WORD},53 1 0 {int(drop * 2**32)},6 0 0 {SHOT},6 0 0 {UNDECIDED}"
                program = ("bpf", "da", "bytecode", lost)
                yield *tc, "filter", "replace", "dev", device, "egress", "pref", "1", "handle", "1", *program
            else:
                yield *tc, "filter", "del", "dev", device, "egress"

    def inside(self, host: int, command: Words) -> Words:
        """Return the command that runs another command on a host."""
        return "ip", "netns", "exec", self.name(host), *command

    def ray_start(self, host: int, python: str) -> Words:
        """Return the command that starts the Ray node of a host; host 0 is the head.

        The nodes offer no CPU, so that Ray starts no worker before one is needed: brokers request none.
        """
        role = (
            ("--head", f"--port={RAY_PORT}", "--include-dashboard=false")
            if host == 0
            else (f"--address={self.ray_address}",)
        )
        start = (python, "-m", "ray.scripts.scripts", "start", *role)
        # One folder each: nodes that start at once in one folder take each other's socket names.
        own = (
            f"--node-ip-address={self.address(host)}",
            f"--temp-dir={RAY_FOLDER}/{self.name(host)}",
            "--num-cpus=0",
            f"--object-store-memory={STORE_BYTES}",
        )
        return self.inside(host, (*start, *own, "--disable-usage-stats"))
