"""Events of the shapes that other systems publish: many attributes, long paths, many arrays, long integers."""

from typing import Any, Final

_HEX: Final = "0123456789abcdef"


def pod() -> dict[str, Any]:
    """Return an event about a Pod, as a Kubernetes API server tells it."""
    managed = {
        f'f:k:{{"containerPort":{port},"protocol":"TCP"}}': {".": {}, "f:containerPort": {}, "f:protocol": {}}
        for port in (80, 443, 8080)
    }
    containers = [
        {
            "name": name,
            "image": f"registry.example/{name}:1",
            "args": [f"--flag-{i}" for i in range(6)],
            "ports": [{"containerPort": port, "protocol": "TCP"} for port in (80, 443, 8080)],
            "env": [{"name": f"VARIABLE_{i}", "value": str(i)} for i in range(8)],
            "volumeMounts": [{"name": f"v{i}", "mountPath": f"/v{i}"} for i in range(4)],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {}},
        }
        for name in ("web", "proxy")
    ]
    return {
        "type": "MODIFIED",
        "object": {
            "kind": "Pod",
            "metadata": {
                "name": "web-0",
                "labels": {"app": "web", "app.kubernetes.io/name": "web"},
                "ownerReferences": [{"kind": "ReplicaSet", "controller": True}],
                "managedFields": [
                    {
                        "manager": "kubelet",
                        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"web"}': managed}}},
                    },
                    {"manager": "scheduler", "fieldsV1": {"f:status": {".": {}}}},
                ],
            },
            "spec": {
                "containers": containers,
                "tolerations": [{"key": f"t{i}", "effect": "NoExecute"} for i in range(3)],
                "volumes": [
                    {"name": f"v{i}", "projected": {"sources": [{"a": 1}, {"b": 2}]}} for i in range(4)
                ],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": each, "status": status}
                    for each, status in (
                        ("Ready", "False"),
                        ("PodScheduled", "True"),
                        ("Initialized", "True"),
                    )
                ],
                "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}],
                "containerStatuses": [
                    {"name": "web", "restartCount": 7},
                    {"name": "proxy", "restartCount": 0},
                ],
            },
        },
    }


def trail() -> dict[str, Any]:
    """Return a record of an audit log of a cloud."""
    return {
        "Records": [
            {
                "eventVersion": "1.09",
                "eventName": name,
                "eventSource": "ec2.example.com",
                "sourceIPAddress": "192.0.2.7",
                "userIdentity": {
                    "type": "AssumedRole",
                    "sessionContext": {"attributes": {"mfaAuthenticated": mfa}},
                },
                "requestParameters": {
                    "instancesSet": {"items": [{"imageId": f"ami-{i}", "minCount": 1} for i in range(25)]},
                    "groups": [f"sg-{i}" for i in range(25)],
                },
                "responseElements": None,
                "resources": [{"ARN": f"arn:example:{i}", "accountId": "1"} for i in range(25)],
            }
            for name, mfa in (("RunInstances", "false"), ("StopInstances", "true"))
        ]
    }


def _repository(prefix: str) -> dict[str, Any]:
    return {"id": 2**53, "full_name": f"{prefix}/it", "private": False, "topics": ["a", "b", "c"]} | {
        f"{each}_url": f"https://example.com/{prefix}/{each}" for each in (f"{i:02x}" for i in range(80))
    }


def pull_request() -> dict[str, Any]:
    """Return an event of a pull request: more than 520 attributes."""
    user = {f"{each}_url": f"https://example.com/{each}" for each in (f"u{digit}" for digit in _HEX)}
    return {
        "action": "opened",
        "number": 12,
        "repository": _repository("base") | {"owner": user},
        "sender": user | {"login": "octo", "site_admin": False},
        "pull_request": {
            "title": "Carry the nested form once",
            "merged_at": None,
            "labels": [{"name": name, "color": "ff0000"} for name in ("bug", "urgent")],
            "requested_reviewers": [user | {"login": name} for name in ("ann", "ben")],
            "head": {"repo": _repository("fork") | {"owner": user}, "user": user, "sha": "0" * 40},
            "base": {"repo": _repository("base") | {"owner": user}, "user": user, "sha": "1" * 40},
            "_links": {f"l{i}": {"href": f"https://example.com/{i}"} for i in range(150)},
        },
    }


def push() -> dict[str, Any]:
    """Return an event of a push with many files: 20 x 20 x 20 ways of a commit, thrice."""
    return {
        "ref": "refs/heads/main",
        "commits": [
            {
                "id": f"{commit:040x}",
                "added": [f"src/{commit}/{i}.py" for i in range(20)],
                "modified": [f"docs/{commit}/{i}.md" for i in range(20)],
                "removed": [f"old/{commit}/{i}.c" for i in range(20)],
            }
            for commit in range(3)
        ],
    }


LONG: Final = ".".join(["a" * 60] * 5)
"""A path of more than 300 characters."""


def odd() -> dict[str, Any]:
    """Return an event with names and numbers that no column takes."""
    deep: Any = {"a" * 60: [2**70, -(2**64)]}
    for _ in range(4):
        deep = {"a" * 60: deep}
    return deep | {"": "no name", "x" * 2_000: 1, "total": 2**70, "a\nb": {"": [{"": 1}]}}


PAYLOADS: Final[dict[str, tuple[dict[str, Any], dict[str, bool]]]] = {
    "pod": (
        pod(),
        {
            "object.spec.containers.name = 'web' AND object.spec.containers.ports.containerPort = 8080": True,
            "object.spec.containers.name = 'web' AND object.spec.containers.image LIKE '%proxy%'": False,
            "object.status.conditions.type = 'Ready' AND object.status.conditions.status = 'False'": True,
            "object.status.conditions.type = 'Ready' AND object.status.conditions.status = 'True'": False,
            "object.status.containerStatuses.restartCount > 5 AND type = 'MODIFIED'": True,
            "object.status.podIPs.ip CIDR '10.0.0.0/8' AND object.spec.volumes.name = 'v3'": True,
            "\"object.metadata.labels.app.kubernetes.io/name\" = 'web'": True,
        },
    ),
    "trail": (
        trail(),
        {
            "Records.eventName = 'StopInstances' AND Records.requestParameters.groups = 'sg-24'": True,
            "Records.eventName = 'StopInstances' AND "
            "Records.userIdentity.sessionContext.attributes.mfaAuthenticated = 'false'": False,
            "Records.resources.ARN SUFFIX ':24' AND "
            "Records.requestParameters.instancesSet.items.imageId = 'ami-0'": True,
            "Records.responseElements IS NULL": True,
        },
    ),
    "pull request": (
        pull_request(),
        {
            "action = 'opened' AND pull_request.labels.name = 'urgent'": True,
            "pull_request.requested_reviewers.login = 'ann' AND pull_request.labels.name = 'feature'": False,
            "pull_request.base.repo.topics = 'c' AND pull_request.head.repo.topics = 'a'": True,
            "pull_request.head.repo.id <> repository.id": False,
            "pull_request.merged_at IS NULL AND sender.site_admin = FALSE": True,
        },
    ),
    "push": (
        push(),
        {
            "commits.added PREFIX 'src/2/' AND commits.modified PREFIX 'docs/2/' AND "
            "commits.removed = 'old/2/19.c'": True,
            "commits.added PREFIX 'src/2/' AND commits.modified PREFIX 'docs/1/'": False,
            "ref = 'refs/heads/main'": True,
        },
    ),
    "odd": (
        odd(),
        {
            f"{LONG} > 1e20 AND total > 1e20": True,
            f"{LONG} < 0 AND total <= 0": False,
            "total = 1180591620717411303424.0": True,
            "total IS MISSING": False,
        },
    ),
}
"""Payloads by name, with selectors and whether these match."""


def without_none(value: Any) -> Any:
    """Return a value without the attributes that are missing."""
    if isinstance(value, dict):
        return {name: without_none(inner) for name, inner in value.items() if inner is not None}
    return [without_none(inner) for inner in value] if isinstance(value, list) else value
