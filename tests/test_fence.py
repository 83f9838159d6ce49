import socket
import time

import pytest
import ray


@pytest.mark.parametrize(
    "call",
    [lambda: time.sleep(0), lambda: socket.socket().connect(("localhost", 1)), lambda: ray.init()],
    ids=["sleep", "connect", "ray"],
)
def test_a_fast_test_cannot_start_what_is_slow(call):
    with pytest.raises(pytest.fail.Exception, match="a fast test called"):
        call()
