"""Log records name their network, broker and incarnation, in the text and as fields."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest
from ray._common.formatters import JSONFormatter
from rayvous.actors.host.transport import Transport
from rayvous.actors.logs import Log
from rayvous.protocol.configs import Limits
from rayvous.protocol.features import NONE
from rayvous.protocol.messages.pubsub import Withdraw
from rayvous.protocol.messages.recovery import RENDEZVOUS


def test_a_record_has_the_fields_of_its_log_and_the_network_in_its_text(caplog):
    log = Log("rayvous.test", network="100% flights", run=None).of(broker=3)
    with caplog.at_level(logging.INFO, "rayvous.test"):
        log.info("broker %d starts", 3, extra={"incarnation": 2})
    (record,) = caplog.records
    assert record.getMessage() == "100% flights: broker 3 starts"
    told = json.loads(JSONFormatter().format(record))  # as with RAY_LOGGING_CONFIG_ENCODING=JSON
    assert (told["network"], told["broker"], told["incarnation"]) == ("100% flights", 3, 2)
    assert "run" not in told


def test_what_clients_wrote_is_one_line_of_the_log(caplog):
    log = Log("rayvous.test", network="flights")
    with caplog.at_level(logging.INFO, "rayvous.test"):
        log.warning("%s: %d lost: %s", "a\n\x1b[2J", 3, ValueError("\u202eb"))
    (record,) = caplog.records
    assert record.getMessage() == r"flights: a\n\x1b[2J: 3 lost: \u202eb"
    assert record.filename == "test_logs.py"


def test_a_loss_says_whose_it_is(caplog):
    async def lose():
        ways = Transport(
            Limits(), NONE, {}, None, None, None, log=Log("rayvous.host", network="flights"),
        )  # fmt: skip
        ways.born(7, 4)
        ways.rendezvous = None  # so a call to it fails
        box = ways.link(7, RENDEZVOUS)
        box.put(Withdraw(1))
        await box.drained()

    with caplog.at_level(logging.WARNING, "rayvous.host"):
        asyncio.run(lose())
    (record,) = caplog.records
    assert (record.network, record.broker, record.incarnation) == ("flights", 7, 4)
    assert record.getMessage().startswith("flights: broker 7 to the rendezvous point: 1 messages lost")


def test_nothing_is_printed_by_an_import_and_no_handler_is_set():
    loggers = [name for name in logging.root.manager.loggerDict if name.startswith("rayvous")]
    assert loggers
    assert not any(logging.getLogger(name).handlers for name in loggers)


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell

class ZMQInteractiveShell(InteractiveShell):  # as the shell of a notebook is called
    pass

ZMQInteractiveShell.instance()
import sys
import rayvous
rayvous.Network
assert "ray" in sys.modules
"""


def test_the_widgets_of_ray_are_quiet_before_they_are_imported():
    assert logging.getLogger("ray.widgets.util").getEffectiveLevel() == logging.WARNING


@pytest.mark.slow
def test_in_a_notebook_ray_does_not_miss_packages_that_are_not_needed():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
