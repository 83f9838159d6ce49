"""A network as a file: the resulting settings, and the message for each mistake."""

import re
import tomllib
from dataclasses import fields
from importlib import resources

import pytest
import rayvous as rv
from rayvous.actors.network.network_file import from_file, read_gateway_file, read_network_file
from rayvous.actors.network.settings import Settings
from rayvous.protocol.errors import InputError
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal, digest_of
from rayvous.routing.topologies.cluster_trees import ClusterTree, FixedTree

GOOD = """name = "flights"
[topology]
clusters = 4
brokers_per_cluster = 3

[recovery]
heartbeat_seconds = 0.5

[stable]
address = "state"

[admission.capacities.3]
events_per_second = 100
"""
TEMPLATE = resources.files("rayvous.cli").joinpath("network.toml").read_text(encoding="utf-8")


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "network.toml"
        path.write_text(text)
        return path

    return write


def test_it_becomes_what_launch_takes(written):
    path = written(GOOD)
    assert read_network_file(path) == Settings(
        ClusterTree(4, 3),
        "flights",
        recovery=rv.Recovery(heartbeat_seconds=0.5),
        stable=rv.Stable(path.parent / "state"),
        admission=rv.AdmissionConfig(capacities={3: rv.Capacity(events_per_second=100)}),
    )


def test_an_address_of_a_database_is_not_taken_for_a_folder(written):
    path = written(GOOD.replace('"state"', '"postgresql://ann@db/flights?schema=west"'))
    assert read_network_file(path).stable == rv.Stable("postgresql://ann@db/flights?schema=west")
    path = written(GOOD.replace('"state"', '"postgresql://ann:pa55/@db"'))
    with pytest.raises(InputError, match=r":10: stable\.address: .*cannot be read") as error:
        read_network_file(path)
    assert "pa55" not in str(error.value)


def test_a_tree_by_hand_has_a_root_whose_parent_is_the_empty_text(written):
    settings = read_network_file(written('name = "a"\n[topology]\nparents = { top = "", left = "top" }\n'))
    assert settings.topology == FixedTree({"top": None, "left": "top"})


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("clusters = 4", "clustrs = 4", 3, "topology.clustrs: topology has no parameter 'clustrs'"),
        ("brokers_per_cluster", "brokers", 4, "topology.brokers: topology has no parameter 'brokers'"),
        ("= 4", "= 0", 3, "topology.clusters: clusters is 0"),
        ("= 0.5", "= -1", 7, "recovery.heartbeat_seconds: recovery heartbeat_seconds is -1.0"),
        ("= 0.5", '= "0.5"', 7, "recovery.heartbeat_seconds: Input should be a valid number"),
        ("heartbeat_seconds", "heartbeet", 7, "recovery.heartbeet: there is no such key; there are heartbeat_seconds"),
        ("[recovery]", "[recovry]", 6, "recovry: there is no such key; there are name, topology"),
        ('"flights"', "3", 1, "name: Input should be a valid string"),
        ('"flights"', '"flights', 1, "Illegal character"),
        ('name = "flights"', 'name = "a"\nscheme = "hybird"', 2, "scheme: no routing scheme 'hybird'"),
        ('name = "flights"', "", None, "name: is missing"),
        ("name =", "nme =", 1, "nme: there is no such key; there are name, topology"),
        ("= 100", '= "many"', 13, "admission.capacities.3.events_per_second: Input should be a valid number"),
        ("[recovery]", "[place]\nlabels = { pool = 3 }\n[recovery]", 7, "place.labels.pool: Input should be a val"),
        ("[recovery]", "[place]\nlabels = { pool = 'in()' }\n[recovery]", 7, "place.labels.pool: place labels pool is"),
        ("[recovery]", "[place]\nresources = { CPU = 1 }\n[recovery]", 7, "place.resources.CPU: place resources: CPU"),
        ("[recovery]", "[place]\nnum_cpus = 1.5\n[recovery]", 7, "place.num_cpus: place num_cpus is 1.5"),
        ("[recovery]", "[place]\ncpus = 1\n[recovery]", 7, "place.cpus: there is no such key; there are labels, res"),
        ('name = "flights"', 'name = "a"\nbrokers_per_actor = true', 2, "brokers_per_actor: Input should be a valid"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_and_key(written, before, after, line, said):
    path = written(GOOD.replace(before, after, 1))
    with pytest.raises(InputError) as error:
        read_network_file(path)
    where = str(path) if line is None else f"{path}:{line}"
    assert str(error.value).startswith(f"{where}: {said}"), error.value


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(InputError, match="rayvous init"):
        read_network_file(tmp_path / "none.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2 << 20))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, said in {
        "large.toml": "is larger",
        "bytes.toml": "cannot be read",
        ".": "cannot be read",
    }.items():
        with pytest.raises(InputError, match=said):
            read_network_file(tmp_path / name)


def test_launched_from_a_file_it_takes_another_name_and_nothing_else(written):
    path = written(GOOD)
    settings = from_file(path, "other", Settings(path, "made-up", detached=True))
    assert (settings.name, settings.detached, settings.recovery.heartbeat_seconds) == ("other", True, 0.5)
    assert from_file(path, None, Settings(path, "made-up")).name == "flights"
    with pytest.raises(InputError, match=r"scheme: set it in the network file"):
        from_file(path, None, Settings(path, "made-up", scheme="lbdd"))


def test_the_file_that_init_writes_can_be_used(written):
    settings = read_network_file(written(TEMPLATE))
    assert settings == Settings(
        ClusterTree(4, 3, degree=8), "flights", recovery=rv.Recovery(heartbeat_seconds=1.0)
    )


SECTIONS = {
    "recovery": rv.Recovery(), "stable": rv.Stable("."), "stable.stability": rv.Stability(),
    "admission": rv.AdmissionConfig(), "admission.capacity": rv.Capacity(), "telemetry": rv.TelemetryConfig(),
    "limits": rv.Limits(), "gateway": GatewayConfig(), "gateway.limits": GatewayLimits(),
    "access.principals.alice": Principal(), "place": rv.NodePlace(),
}  # fmt: skip
NOT_FOR_PEOPLE = {"stability", "capacity", "capacities", "links", "limits"}
"""Sections of their own."""
WITHOUT = {"folder", "certificate", "private_key"}
"""What is off where it is not given, which their section or the line says in other words."""


@pytest.mark.parametrize("section", SECTIONS)
def test_the_file_that_init_writes_has_every_key_with_its_default(section):
    default = SECTIONS[section]
    start = re.search(rf"^(# )?\[{re.escape(section)}\]", TEMPLATE, re.MULTILINE)
    text = TEMPLATE[start.end() :].split("\n[")[0].split("\n# [")[0]
    shown = dict(re.findall(r"^(?:# )?(\w+) = (.*?)(?: +#.*)?$", text, re.MULTILINE))
    assert set(shown) | NOT_FOR_PEOPLE >= {each.name for each in fields(default)}
    for name, value in shown.items():
        usual = getattr(default, name)
        usual = list(usual) if isinstance(usual, tuple) else usual
        line = re.search(rf"^(?:# )?{name} = .*", text, re.MULTILINE)[0]
        assert name in WITHOUT or usual not in (None, float("inf")) or "if not given" in line, line
        assert usual is None or usual in (float("inf"), ".") or tomllib.loads(f"v = {value}")["v"] == usual, (
            name
        )


OUTSIDE = f"""
[gateway]
http = "0.0.0.0:80"
certificate = "cert.pem"
private_key = "key.pem"

[gateway.limits]
slow = "cut"

[access.anonymous]
subscribe = "public = TRUE"

[access.principals.alice]
token_sha256 = ["{digest_of("t")}"]
publish = "origin = 'JFK'"
"""


def test_it_says_who_comes_from_outside(written):
    path = written(GOOD + OUTSIDE)
    settings = read_network_file(path)
    assert settings.gateway == GatewayConfig(
        "0.0.0.0:80",
        certificate=path.parent / "cert.pem",
        private_key=path.parent / "key.pem",
        limits=GatewayLimits(slow="cut"),
    )
    assert settings.access == AccessConfig(
        {"alice": Principal((digest_of("t"),), publish="origin = 'JFK'")},
        anonymous=Principal(subscribe="public = TRUE"),
    )
    assert read_gateway_file(path) == (settings.gateway, settings.access)
    assert read_gateway_file(written(OUTSIDE)) == (settings.gateway, settings.access)
    assert read_gateway_file(written(GOOD)) == (None, None)


def test_a_mistake_of_a_section_that_has_no_heading_is_told_with_the_first_one_within(written):
    bob = f'[access.principals.bob]\ntoken_sha256 = ["{digest_of("t")}"]\n'
    text = 'name = "a"\n\n' + bob + bob.replace("bob", "al").replace('= ["', f'= ["{digest_of("u")}", "')
    with pytest.raises(InputError, match=r":5: access\.principals\.al: .* has a token of bob"):
        read_gateway_file(written(text))
    with pytest.raises(InputError, match=r":3: access: access: it names nobody"):
        read_gateway_file(written('name = "a"\n\n[access.principals]\n'))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            '"0.0.0.0:80"',
            '"80"',
            r":16: gateway.http: gateway http is '80': it must be an address and a port",
        ),
        ('private_key = "key.pem"', "", r":17: gateway.certificate: .* TLS takes both"),
        ('"cut"', '"wait"', r":21: gateway.limits.slow: Input should be 'shed' or 'cut'"),
        (
            "= 'JFK'\"",
            "= 'JFK\"",
            r":28: access.principals.alice.publish: access principals alice: publish: line 1",
        ),
        (
            "public = TRUE",
            "public =",
            r":24: access.anonymous.subscribe: access anonymous: subscribe: line 1",
        ),
        (
            digest_of("t"),
            "secret",
            r":27: access.principals.alice.token_sha256: .*token_sha256 is 'secret': it must be 64 hexadecimal digits",
        ),
        (
            "principals.alice",
            "principals.anonymous",
            r":26: access.principals.anonymous: .*a name is up to 64",
        ),
        ("principals.alice", 'principals." a.b"', r":26: access.principals. a.b: .*a name is up to 64"),
        ("token_sha256", "# token_sha256", r":26: access.principals.alice: .*token_sha256 is missing"),
        ('publish = "', 'events_per_second = 0 # "', r":28: access.principals.alice.events_per_second: "),
        (
            OUTSIDE[OUTSIDE.index("[access.anon") :],
            "",
            r"gateway: access is missing, so nobody could connect",
        ),
    ],
)
def test_mistakes_about_who_comes_from_outside(written, before, after, said):
    text = GOOD + OUTSIDE
    assert before in text
    with pytest.raises(InputError, match=said):
        read_network_file(written(text.replace(before, after)))
