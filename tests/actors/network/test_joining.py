"""What a user is told when Ray, or a network, cannot be joined."""

import re

import pytest
from rayvous.actors.network import lasting_ray, launching, network
from rayvous.protocol.errors import NetworkNotFound, RayUnavailable


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("RPC error: InvalidAuthToken: token is missing", "set RAY_AUTH_MODE=token"),
        ("connection refused", None),
    ],
)
def test_a_ray_that_asks_for_a_token_says_so(monkeypatch, reason, hint) -> None:
    def init(*_, **__):
        try:
            raise RuntimeError(f"Failed to connect to GCS. Last connection error: {reason}")
        except RuntimeError as error:
            raise ConnectionError("Failed to connect to Ray cluster at head:6379") from error

    monkeypatch.setattr(launching.ray, "init", init)
    with pytest.raises(RayUnavailable, match="head:6379") as caught:
        launching.init_ray("head:6379")
    assert ("RAY_AUTH_MODE" in str(caught.value)) == (hint is not None) and (hint or "") in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        Exception("The current node timed out during startup."),
        OSError("AF_UNIX path length cannot exceed 107 bytes"),
        FileNotFoundError(2, "No such file or directory", "/proc/none"),
        AssertionError(),
    ],
    ids=["too slow", "path too long", "no folder", "no words"],
)
def test_a_ray_that_does_not_start_is_one_line_whatever_its_error(monkeypatch, error) -> None:
    def init(*_, **__):
        raise error

    monkeypatch.setattr(launching.ray, "init", init)
    with pytest.raises(
        RayUnavailable, match=r"^Ray could not be started or joined: .+; .*rayvous doctor$"
    ) as told:
        launching.init_ray("local")
    assert str(error).rstrip(".") in str(told.value)


def test_of_a_traceback_the_error_is_told() -> None:
    printed = "INFO begins\n\nTraceback (most recent call last):\n  File x\nOSError: the disk is full\n\n"
    assert lasting_ray._reason(printed) == "OSError: the disk is full"
    assert lasting_ray._reason("Usage: ...\n\nError: no such option\n") == "Usage: ... Error: no such option"


class Knock:
    """A connection that somebody accepts."""

    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("UNAUTHENTICATED", "RAY_ADDRESS is 'ray://head:10001': it asks for a token"),
        ("", None),
        ("UNKNOWN", None),
    ],
)
def test_a_client_server_that_asks_for_a_token_says_so_at_once(monkeypatch, status, message) -> None:
    asked = []
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    monkeypatch.setattr(launching, "prepare_workers", lambda: None)
    monkeypatch.setattr(launching.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(launching.socket, "create_connection", Knock)
    monkeypatch.setattr(launching, "_status_of_ping", lambda place: asked.append(place) or status)
    monkeypatch.setattr(launching.ray, "init", lambda *_, **__: asked.append("init"))
    if message is None:
        assert launching.ensure_ray() and asked == ["head:10001", "init"]
        return
    with pytest.raises(RayUnavailable, match=message):
        launching.ensure_ray()
    assert asked == ["head:10001"], "Ray would try for half a minute"


@pytest.mark.parametrize("address", ["ray://head:10001", "ray://head", "ray://"])
def test_where_no_client_server_answers_ray_does_not_even_try(monkeypatch, address) -> None:
    def refuse(*_: object) -> None:
        raise OSError("refused")

    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setattr(launching, "prepare_workers", lambda: None)
    monkeypatch.setattr(launching.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(launching.socket, "create_connection", refuse)
    with pytest.raises(RayUnavailable, match=f"RAY_ADDRESS is '{address}': nobody answers there"):
        launching.ensure_ray()


@pytest.mark.parametrize(
    ("named", "found", "said"),
    [
        ("", {"here:1", "here:2", "here:3"}, "joined here:1, .* RAY_ADDRESS: here:2, here:3"),
        ("", {"here:1"}, None),
        ("here:1", {"here:1", "here:2"}, None),
    ],
)
def test_who_joins_one_of_several_rays_is_told_which(monkeypatch, caplog, named, found, said) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    monkeypatch.setattr(launching, "prepare_workers", lambda: None)
    monkeypatch.setattr(launching.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(launching, "_running_ray", lambda: "here:1")
    monkeypatch.setattr(launching.services, "find_gcs_addresses", lambda: found)
    monkeypatch.setattr(launching.ray, "init", lambda *_, **__: None)
    launching.ensure_ray()
    lines = [record.getMessage() for record in caplog.records if record.name == "rayvous.network"]
    assert len(lines) == (said is not None) and all(re.search(said or "", line) for line in lines)


def test_who_asks_for_a_network_where_none_runs_is_told_what_starts_one(monkeypatch):
    monkeypatch.setattr(network, "starts_ray", lambda: True)
    with pytest.raises(NetworkNotFound, match=r"names none; start one: rayvous up --name flights$"):
        network.Network.attach("flights")
    monkeypatch.setattr(network, "starts_ray", lambda: False)
    monkeypatch.setattr(network, "ensure_ray", lambda: None)
    monkeypatch.setattr(network.ray, "get_actor", lambda *_, **__: int("none"))
    monkeypatch.setattr(network, "networks", list)
    monkeypatch.setattr(network, "parts_of", lambda name: [])
    with pytest.raises(NetworkNotFound, match=r"and no other: rayvous up --name 'two words' starts one$"):
        network.Network.attach("two words")
    monkeypatch.setattr(network, "networks", lambda: ["b", "a"])
    with pytest.raises(NetworkNotFound, match=r"on this Ray cluster; there is: a, b$"):
        network.Network.attach("flights")
