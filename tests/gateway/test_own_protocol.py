"""A protocol of the gateway of one's own: the recipe in docs/extending.md is short, and its example serves a client."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_SECONDS
from rayvous.gateway.core import Gateway
from rayvous.protocol.gateways import AccessConfig, Principal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## A gateway protocol\n")[1].split("\n## ")[0]
RECIPE, CODE = re.findall(r"(.*?)```python\n(.*?)```", SECTION, re.DOTALL)[0]
OPEN = AccessConfig(anonymous=Principal(publish="TRUE", subscribe="x > 0"))


class Writer:
    """The side of a connection that the server writes to."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.closed = asyncio.Event()

    def write(self, data: bytes) -> None:
        for line in data.decode().splitlines():
            self.lines.put_nowait(line)

    async def drain(self) -> None:
        """Everything has been read."""

    def close(self) -> None:
        self.closed.set()


def lines_of(gateway: Gateway) -> Any:
    module: dict[str, Any] = {}
    exec(CODE, module)
    return module["Lines"](gateway, None)


def run(test: Callable[[Gateway, Callable[[str], Writer]], Any], gateway: Callable[..., Gateway]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
            served = gateway(access=OPEN)
            server = lines_of(served)

            def connect(first: str) -> Writer:
                reader, writer = asyncio.StreamReader(), Writer()
                reader.feed_data(f"{first}\n".encode())
                tasks.create_task(server.serve(reader, writer))
                return writer

            await test(served, connect)
            await served.close()

    asyncio.run(bounded())


def test_the_recipe_has_at_most_ten_lines() -> None:
    assert 3 <= len([line for line in RECIPE.splitlines() if line.strip()]) <= 10


def test_a_client_is_sent_what_its_selector_matches(gateway: Callable[..., Gateway]) -> None:
    async def test(served: Gateway, connect: Callable[[str], Writer]) -> None:
        client, session = connect("x > 10"), await served.open(None)
        while not served.upstream.feeds:  # type: ignore[attr-defined]  # of the fake network
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await session.publish([{"x": 12}, {"x": 8}, {"x": 11}])
        assert [await client.lines.get(), await client.lines.get()] == ['{"x":12}', '{"x":11}']
        await session.close()

    run(test, gateway)


@pytest.mark.parametrize(("selector", "said"), [("x >", "expected"), ("x > -1", "does not cover")])
def test_a_client_is_told_why_it_is_refused(
    selector: str, said: str, gateway: Callable[..., Gateway]
) -> None:
    async def test(served: Gateway, connect: Callable[[str], Writer]) -> None:
        client = connect(selector)
        assert said in await client.lines.get()
        await client.closed.wait()

    run(test, gateway)
