"""``rayvous token`` and ``rayvous gateway``, as far as they work without Ray."""

import json
import tomllib
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from rayvous.actors.network.network_file import read_gateway_file
from rayvous.cli.verbs import gateway
from rayvous.gateway.ui.codes import Codes
from rayvous.protocol.gateways import digest_of


def test_a_token_is_told_once_and_its_digest_lets_it_in(rayvous, tmp_path):
    rights = ("--publish", "origin = 'JFK'", "--subscribe", "TRUE", "--watch")
    status, lines, told = rayvous("token", "a.b", *rights)
    token = told.removeprefix("token of a.b: ").strip()
    assert (status, len(token)) == (0, 43)
    assert token not in lines
    path = tmp_path / "access.toml"
    path.write_text(lines)
    _, access = read_gateway_file(path)
    alice = access.principals["a.b"]
    assert (alice.token_sha256, alice.publish, alice.subscribe) == (
        (digest_of(token),),
        "origin = 'JFK'",
        "TRUE",
    )
    assert (alice.watch, alice.operate) == (True, False)


def test_tokens_are_made_by_chance(rayvous):
    made = [json.loads(rayvous("token", "alice", "--json")[1]) for _ in range(2)]
    assert made[0]["token"] != made[1]["token"]
    assert made[0]["token_sha256"] == digest_of(made[0]["token"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["token", "a b"], "a name is up to 64"),
        (["token", "alice", "--publish", "a ="], "access principals alice: publish: line 1"),
        (["gateway", "flights", "-f", "none.toml"], "there is no such file"),
        (["gateway", "flights", "-f", "FILE"], "access is missing"),
        (["gateway", "flights", "--list", "--http", "127.0.0.1:0"], "--list: it starts no gateway"),
    ],
)
def test_mistakes_are_told_before_ray_is_asked(rayvous, tmp_path, words, said):
    path = tmp_path / "network.toml"
    path.write_text('name = "flights"\n')
    status, _, told = rayvous(*(str(path) if word == "FILE" else word for word in words))
    assert (status, told.count("\n")) == (2, 1)
    assert said in told


def test_lines_of_several_tokens_are_one_file(rayvous):
    text = rayvous("token", "alice")[1] + rayvous("token", "bob")[1]
    assert list(tomllib.loads(text)["access"]["principals"]) == ["alice", "bob"]


def test_the_browser_gets_a_code_and_nobody_the_token(rayvous, monkeypatch):
    """A browser's arguments are listed by ps; the printed link and the browser's each open the page once."""
    opened, codes = [], Codes()

    async def serve(net, config, access, tell):
        tell(SimpleNamespace(urls=["http://127.0.0.1:1"], codes=codes))
        (me,) = access.principals.values()
        for link in (*opened, *told):
            assert me.token_sha256 == (digest_of(codes.redeem(link.partition("#")[2])),)
        return False

    told = []
    monkeypatch.setattr(gateway, "joined", lambda *_: nullcontext())
    monkeypatch.setattr(gateway, "_serve", serve)
    monkeypatch.setattr(gateway, "_print_lines", told.extend)
    monkeypatch.setattr(gateway.webbrowser, "open", opened.append)
    assert rayvous("ui", "flights", "--kill")[0] == 0
    assert [link.partition("#")[0] for link in (*opened, *told)] == ["http://127.0.0.1:1/ui/"] * 2
    assert opened != told and len(codes) == 0
