"""One network for all tests that only need some network; those that need their own launch it."""

from collections.abc import Iterator
from itertools import count

import pytest
import rayvous as rv


@pytest.fixture(scope="session")
def net(ray_started: None) -> Iterator[rv.Network]:
    with rv.Network.launch(rv.ClusterTree(4, 2, degree=2), brokers_per_actor=2, trace_events=True) as network:
        yield network
        network.settle()
        network.check()


NUMBERS = count()


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> str:
    """A client name that no other test uses."""
    return f"{request.node.name}-{next(NUMBERS)}"
