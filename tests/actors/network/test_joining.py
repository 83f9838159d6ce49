"""What is said of a Ray that cannot be joined."""

import pytest
from rayvous.actors.network import launching
from rayvous.protocol.errors import RayUnavailable


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
