"""The fake of Ray has nothing that Ray lacks, and its actors nothing that the classes lack for which they stand."""

import inspect

import pytest
import ray
from fakes import Actor, Call, Ray
from ray.exceptions import GetTimeoutError
from rayvous.actors.host.host import BrokerHost

METHODS = {name: of for name, of in vars(Ray).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", METHODS)
def test_ray_has_what_its_fake_has_with_these_arguments(name):
    real = inspect.signature(getattr(ray, name)).parameters
    for place, (argument, given) in enumerate([*inspect.signature(METHODS[name]).parameters.items()][1:]):
        if given.kind is given.KEYWORD_ONLY:
            assert argument in real
        else:
            assert list(real.values())[place].kind is not given.KEYWORD_ONLY


def test_a_fake_of_a_host_is_asked_what_a_host_is_asked():
    host = Actor(BrokerHost, survey={})
    assert host.survey.remote().value == {}
    with pytest.raises(TypeError):
        host.survey.remote("an argument that it does not take")
    with pytest.raises(AttributeError):
        Actor(BrokerHost, surveys={})
    with pytest.raises(AttributeError, match="does not answer pid"):
        host.pid  # noqa: B018


def test_nothing_waits_and_what_would_be_waited_for_is_known(monkeypatch):
    fake = Ray(monkeypatch)
    with pytest.raises(GetTimeoutError):
        fake.get(Call(1, done=False), timeout=3.0)
    assert fake.waited == [3.0]
    assert fake.get([Call(1), Call(2)]) == [1, 2] and fake.waited == [3.0]
