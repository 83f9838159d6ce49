"""Log records with structured fields, which Ray's JSON log shows as keys.

Rules
-----
* The fields are `network`, `broker` and `incarnation` (how often the broker has been started before), as far as
  they are known where a record is made. The text begins with the network, because brokers of several networks
  may share a log.
* Levels: ERROR, something needs a person's attention to continue; WARNING, something was lost, and is counted;
  INFO, a broker starts; DEBUG, failures that are repaired automatically.
* The loggers are ``rayvous.*`` and have no handlers: these are configured by the program, or by Ray
  (``ray.LoggingConfig``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

from ..protocol.printable import printable

Fields = Mapping[str, str | int]


class Log(logging.LoggerAdapter[logging.Logger]):
    """A logger that knows the subject of its records.

    Parameters
    ----------
    name
        Of the logger.
    fields
        The fields of all its records; those that are None are left out.
    """

    def __init__(self, name: str, **fields: str | int | None) -> None:
        self.fields: Fields = {key: value for key, value in fields.items() if value is not None}
        super().__init__(logging.getLogger(name), self.fields)

    def of(self, **more: str | int | None) -> Log:
        """Return a logger with additional fields."""
        return Log(self.logger.name, **{**self.fields, **more})

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Make a record; texts and errors in it, which may quote clients, are made printable."""
        if self.isEnabledFor(level):
            said = (printable(str(each)) if isinstance(each, str | BaseException) else each for each in args)
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, msg, *said, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Put the network before the text, and the fields into the record."""
        network = self.fields.get("network")
        text = msg if network is None else f"{printable(str(network)).replace('%', '%%')}: {msg}"
        return text, {**kwargs, "extra": {**self.fields, **kwargs.get("extra", {})}}


HOST = Log("rayvous.host")
"""The logger of a host that is in no network, as in tests of its parts."""
