"""A plugin of pytest: time passes many times as fast, as it seems to on a machine that has no time for these tests.

``PYTHONPATH=tests pytest -p hurry --ignore=tests/on_ray --ignore=tests/on_spark``

* The clocks of `time` run `TIMES` as fast. What is awaited by time (`asyncio.sleep`, a timeout of a loop) takes a part
  of its time accordingly, so this is a machine on which only computing is slow.
* What threads await with a timeout keeps its time: these bounds are generous, and no test waits for them.
* A test that fails under it asserts something before a time has passed, and would fail on a loaded machine too. Let its
  clock stand, await an event, or give it a generous bound (`patience`).
"""

import os
import selectors
import time

TIMES = float(os.environ.setdefault("HURRY", "50"))  # `patience` knows it from there


def _hurried(clock):
    zero = clock()
    return lambda: zero + (clock() - zero) * TIMES


def _select(real):
    def select(self, timeout=None):
        return real(self, timeout / TIMES if timeout is not None and timeout > 0 else timeout)

    return select


for _name in ("monotonic", "time", "perf_counter"):
    setattr(time, _name, _hurried(getattr(time, _name)))
for _kind in (selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector):
    _kind.select = _select(_kind.select)
