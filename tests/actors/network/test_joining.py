"""What a user is told when Ray, or a network, cannot be joined."""

import pytest
from rayvous.actors.network import launching, network
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


def test_who_asks_for_a_network_where_none_runs_is_told_what_starts_one(monkeypatch):
    monkeypatch.setattr(network, "starts_ray", lambda: True)
    with pytest.raises(NetworkNotFound, match=r"names none; start one: rayvous up --name flights$"):
        network.Network.attach("flights")
    monkeypatch.setattr(network, "starts_ray", lambda: False)
    monkeypatch.setattr(network, "ensure_ray", lambda: None)
    monkeypatch.setattr(network.ray, "get_actor", lambda *_, **__: int("none"))
    monkeypatch.setattr(network, "networks", list)
    with pytest.raises(NetworkNotFound, match=r"and no other: rayvous up --name 'two words' starts one$"):
        network.Network.attach("two words")
    monkeypatch.setattr(network, "networks", lambda: ["b", "a"])
    with pytest.raises(NetworkNotFound, match=r"on this Ray cluster; there is: a, b$"):
        network.Network.attach("flights")
