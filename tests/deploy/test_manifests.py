"""The manifests for Kubernetes: each field is known, and what one refers to, another one defines."""

import copy
import importlib.util
import tomllib
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
import typer
import yaml
from packaging.requirements import Requirement
from rayvous.actors.channels.config import ports_of
from rayvous.actors.network.network_file import read_network_file
from rayvous.actors.network.placing import fits
from rayvous.cli.app import app
from rayvous.cli.doctor.machine import STORE_SHARE
from rayvous.cli.verbs.game_day import TOKEN_VARIABLE
from rayvous.gateway.origins import OtherHost, check_host
from rayvous.gateway.serving import names_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RAY_WORKER_PORTS_LAST = 19_999
UNITS = {"Mi": 1 << 20, "Gi": 1 << 30}

_spec = importlib.util.spec_from_file_location("kubernetes_schema", Path(__file__).with_name("schema.py"))
assert _spec is not None and _spec.loader is not None
schema = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(schema)


def read():
    """Return all resources of all manifests, as (kind, name) and content."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            key = resource["kind"], resource["metadata"]["name"]
            assert key not in found, f"{path}: {key} occurs twice"
            found[key] = resource
    return found


RESOURCES = read()
CLUSTER = RESOURCES["RayCluster", "rayvous"]
GROUPS = [CLUSTER["spec"]["headGroupSpec"], *CLUSTER["spec"]["workerGroupSpecs"]]
JOB = RESOURCES["Job", "rayvous-up"]["spec"]["template"]["spec"]
GAME_DAY = RESOURCES["Job", "rayvous-game-day"]["spec"]["template"]
PODS = [*(group["template"]["spec"] for group in GROUPS), JOB, GAME_DAY["spec"]]


def size(text):
    return int(text[:-2]) * UNITS[text[-2:]]


def places(content, path=()):
    """Yield the path of every field, at any depth."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("key", RESOURCES, ids="/".join)
def test_every_field_is_known(key):
    jsonschema.validate(RESOURCES[key], schema.KINDS[key[0]])


def test_a_misspelled_field_is_found():
    free = ("labels", "matchLabels", "selector", "rayStartParams", "data")  # their keys are our own
    validator = jsonschema.Draft202012Validator(schema.KINDS["RayCluster"])
    for path in places(CLUSTER):
        if isinstance(path[-1], int) or any(name in free for name in path[:-1]):
            continue
        wrong = copy.deepcopy(CLUSTER)
        home = wrong
        for step in path[:-1]:
            home = home[step]
        home[f"{path[-1]}x"] = home.pop(path[-1])
        assert not validator.is_valid(wrong), path


def test_versions_are_those_of_the_project():
    images = {container["image"] for pod in PODS for container in pod["containers"]}
    assert images == {f"rayvous:{PROJECT['version']}"}
    asked = next(Requirement(line) for line in PROJECT["dependencies"] if line.startswith("ray["))
    version = CLUSTER["spec"]["rayVersion"]
    assert asked.specifier.contains(version)
    assert metadata.version("ray") == version


def test_ports_of_connections_between_brokers_are_for_the_cluster_alone(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text(RESOURCES["ConfigMap", "rayvous-network"]["data"]["network.toml"])
    settings = read_network_file(path)
    assert settings.links == "direct"
    first, last = ports_of(settings.ports)
    taken = [
        port["containerPort"] for pod in PODS for each in pod["containers"] for port in each.get("ports", ())
    ]
    assert not [port for port in taken if first <= port <= last] and first > RAY_WORKER_PORTS_LAST
    assert last - first + 1 >= len(settings.topology.positions()), "one pod may have to carry all brokers"
    within, public = RESOURCES["NetworkPolicy", "rayvous"]["spec"]["ingress"]
    assert "ports" not in within and within["from"]
    assert {port["port"] for port in public["ports"]} == {"gateway", "stomp", "metrics"}


def test_ports_that_are_named_are_there():
    ports = []
    for group in GROUPS:
        there = [port for each in group["template"]["spec"]["containers"] for port in each["ports"]]
        ports.append({port["name"]: port["containerPort"] for port in there})
        assert len(set(ports[-1].values())) == len(there)
        assert ports[-1]["metrics"] == 8080  # where KubeRay lets Ray export metrics
    services = [each for (kind, _), each in RESOURCES.items() if kind == "Service"]
    wanted = [port["targetPort"] for each in services for port in each["spec"]["ports"]]
    wanted += [end["port"] for end in RESOURCES["PodMonitor", "rayvous"]["spec"]["podMetricsEndpoints"]]
    assert wanted
    for name in wanted:
        assert all(name in group for group in ports), name


def test_selectors_are_those_that_kuberay_labels_pods_with():
    label = {"ray.io/cluster": CLUSTER["metadata"]["name"]}
    assert RESOURCES["PodMonitor", "rayvous"]["spec"]["selector"]["matchLabels"] == label
    for (kind, _), resource in RESOURCES.items():
        if kind == "Service":
            assert resource["spec"]["selector"] == label


def test_rays_own_ports_are_for_the_cluster_and_the_job_alone():
    policy = RESOURCES["NetworkPolicy", "rayvous"]["spec"]
    cluster = {"matchLabels": {"ray.io/cluster": CLUSTER["metadata"]["name"]}}
    job = RESOURCES["Job", "rayvous-up"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"] == cluster and policy["policyTypes"] == ["Ingress"]
    inside, everybody = policy["ingress"]
    assert [each["podSelector"] for each in inside["from"]] == [cluster, {"matchLabels": job}]
    assert "from" not in everybody
    opened = {port["port"] for port in everybody["ports"]}
    for group in GROUPS:
        for each in group["template"]["spec"]["containers"]:
            named = {port["name"] for port in each["ports"]}
            assert opened <= named and not opened & {"gcs-server", "dashboard", "client"}
    assert RESOURCES["PodDisruptionBudget", "rayvous"]["spec"] == {"maxUnavailable": 1, "selector": cluster}


def test_the_job_finds_its_cluster_its_token_and_its_file(tmp_path):
    (up,) = JOB["containers"]
    name = CLUSTER["metadata"]["name"]
    assert up["command"][:2] == ["rayvous", "up"]
    assert up["command"][up["command"].index("--address") + 1] == f"ray://{name}-head-svc:10001"
    token = next(each for each in up["env"] if each["name"] == "RAY_AUTH_TOKEN")
    assert token["valueFrom"]["secretKeyRef"] == {"name": name, "key": "auth_token"}  # KubeRay creates it
    assert CLUSTER["spec"]["authOptions"]["mode"] == "token"
    (mount,), (volume,) = up["volumeMounts"], JOB["volumes"]
    content = RESOURCES["ConfigMap", volume["configMap"]["name"]]["data"]
    file = Path(up["command"][up["command"].index("-f") + 1])
    assert mount["name"] == volume["name"] and str(file.parent) == mount["mountPath"]
    (tmp_path / file.name).write_text(content[file.name])
    settings = read_network_file(tmp_path / file.name)
    assert settings.recovery is not None  # or a pod that dies would remove a part of the network for good
    for group in GROUPS:
        there = [port for each in group["template"]["spec"]["containers"] for port in each["ports"]]
        ports = {port["name"]: port["containerPort"] for port in there}
        assert settings.gateway.http == f"0.0.0.0:{ports['gateway']}"
        assert settings.gateway.stomp == f"0.0.0.0:{ports['stomp']}"


def test_brokers_run_on_the_nodes_of_a_group_and_gateways_on_all(tmp_path):
    (path,) = RESOURCES["ConfigMap", "rayvous-network"]["data"]
    (tmp_path / path).write_text(RESOURCES["ConfigMap", "rayvous-network"]["data"][path])
    settings = read_network_file(tmp_path / path)
    nodes = [{"Labels": group.get("labels", {}), "Resources": {"CPU": 2.0}} for group in GROUPS]
    assert [fits(node, settings.place) for node in nodes] == [False, True]
    assert all(fits(node, settings.gateway.place) for node in nodes)


def test_a_game_day_may_delete_pods_and_no_other_pod_has_an_account():
    pod, name = GAME_DAY["spec"], "rayvous-game-day"
    assert [each["automountServiceAccountToken"] for each in PODS] == [False] * (len(PODS) - 1) + [True]
    assert pod["serviceAccountName"] == name and ("ServiceAccount", name) in RESOURCES
    binding = RESOURCES["RoleBinding", name]
    assert binding["roleRef"]["name"] == binding["subjects"][0]["name"] == name
    assert RESOURCES["Role", name]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}
    ]
    up = RESOURCES["Job", "rayvous-up"]["spec"]["template"]["metadata"]["labels"]
    assert GAME_DAY["metadata"]["labels"] == up, "policy.yaml lets it use Ray"
    (day,), (volume,) = pod["containers"], pod["volumes"]
    known = {name for each in typer.main.get_command(app).commands["chaos"].params for name in each.opts}
    assert {word for word in day["command"] if word.startswith("--")} <= known
    python, script, node = day["command"][day["command"].index("--node-command") + 1].split()
    assert (python, node) == ("python", "{node}")
    assert script == f"{day['volumeMounts'][0]['mountPath']}/delete_pod.py"
    compile(RESOURCES["ConfigMap", volume["configMap"]["name"]]["data"]["delete_pod.py"], script, "exec")
    assert {each["name"] for each in day["env"]} >= {TOKEN_VARIABLE, "RAY_AUTH_TOKEN"}


def test_the_gateways_know_the_names_of_their_service(tmp_path):
    """Probes and scrapers use the address of a pod, which needs no name."""
    (path,) = RESOURCES["ConfigMap", "rayvous-network"]["data"]
    (tmp_path / path).write_text(RESOURCES["ConfigMap", "rayvous-network"]["data"][path])
    hosts = names_of(read_network_file(tmp_path / path).gateway)
    service = RESOURCES["Service", "rayvous-gateway"]["metadata"]["name"]
    for name in (
        service,
        f"{service}.default.svc",
        f"{service}.default.svc.cluster.local:8090",
        "10.0.0.7:8090",
    ):
        check_host(name, hosts)
    with pytest.raises(OtherHost):
        check_host("evil.example", hosts)


def test_shared_memory_holds_what_ray_puts_there():
    for group in GROUPS:
        pod = group["template"]["spec"]
        (container,), (volume,) = pod["containers"], pod["volumes"]
        assert {"name": volume["name"], "mountPath": "/dev/shm"} in container["volumeMounts"]
        memory = size(container["resources"]["limits"]["memory"])
        assert STORE_SHARE * memory <= size(volume["emptyDir"]["sizeLimit"]) <= memory / 2


def test_workers_are_as_many_as_their_group_may_have():
    for group in CLUSTER["spec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
