"""The fields that our manifests use of KubeRay, Kubernetes and the Prometheus operator, and no others.

The names and types are those of the custom resource definition of ray.io/v1 (KubeRay 1.5) and of the
Kubernetes API. A field that is missing here is a misspelling, or has to be looked up and added.
"""

from typing import Any

Schema = dict[str, Any]

QUANTITY: Schema = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
PORT_NAME: Schema = {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 15}
TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
WHOLE: Schema = {"type": "integer", "minimum": 0}


def fields(required: str = "", **properties: Schema) -> Schema:
    """Return the schema of an object that has these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def several(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def one_of(*values: Any) -> Schema:
    return {"enum": list(values)}


METADATA = fields("name", name=NAME, labels=TEXTS)
RESOURCES = fields("requests limits", requests=fields("cpu memory", cpu=QUANTITY, memory=QUANTITY),
                   limits=fields("memory", cpu=QUANTITY, memory=QUANTITY))  # fmt: skip
SECRET_KEY = fields("name key", name=NAME, key=TEXT)
FROM_SECRET = fields("secretKeyRef", secretKeyRef=SECRET_KEY)
VARIABLE = fields("name", name=TEXT, value={"type": "string"}, valueFrom=FROM_SECRET)
CONTAINER = fields(
    "name image resources securityContext",
    name=NAME,
    image={"type": "string", "pattern": "^[^:]+:[^:]+$", "not": {"pattern": ":latest$"}},
    command=several(TEXT),
    ports=several(fields("containerPort name", containerPort=PORT, name=PORT_NAME)),
    env=several(VARIABLE),
    resources=RESOURCES,
    securityContext=fields(
        "allowPrivilegeEscalation capabilities",
        allowPrivilegeEscalation=one_of(False),
        capabilities=fields("drop", drop=one_of(["ALL"])),
    ),
    volumeMounts=several(fields("name mountPath", name=NAME, mountPath=TEXT, readOnly={"type": "boolean"})),
)
VOLUME = fields(
    "name",
    name=NAME,
    emptyDir=fields(medium=one_of("Memory"), sizeLimit=QUANTITY),
    configMap=fields("name", name=NAME),
)
POD = fields(
    "securityContext containers automountServiceAccountToken",
    automountServiceAccountToken={"type": "boolean"},
    serviceAccountName=NAME,
    restartPolicy=one_of("OnFailure", "Never", "Always"),
    terminationGracePeriodSeconds={"type": "integer", "minimum": 0},
    securityContext=fields(
        "runAsNonRoot runAsUser seccompProfile",
        runAsNonRoot=one_of(True),
        runAsUser={"type": "integer", "minimum": 1},
        seccompProfile=fields("type", type=one_of("RuntimeDefault")),
    ),
    containers=several(CONTAINER),
    volumes=several(VOLUME),
)
LABELS = fields("matchLabels", matchLabels=TEXTS)
TEMPLATE = fields("spec", metadata=fields(labels=TEXTS), spec=POD)


def kind(version: str, name: str, **rest: Schema) -> Schema:
    """Return the schema of one kind of resource."""
    return fields(
        "apiVersion kind metadata " + " ".join(rest),
        apiVersion=one_of(version),
        kind=one_of(name),
        metadata=METADATA,
        **rest,
    )


KINDS: dict[str, Schema] = {
    "RayCluster": kind(
        "ray.io/v1",
        "RayCluster",
        spec=fields(
            "rayVersion headGroupSpec workerGroupSpecs",
            rayVersion=TEXT,
            authOptions=fields("mode", mode=one_of("token", "disabled")),
            headGroupSpec=fields(
                "rayStartParams template",
                serviceType=one_of("ClusterIP", "NodePort", "LoadBalancer"),
                labels=TEXTS,
                rayStartParams=TEXTS,
                template=TEMPLATE,
            ),
            workerGroupSpecs=several(
                fields(
                    "groupName replicas minReplicas maxReplicas rayStartParams template",
                    groupName=NAME,
                    replicas=WHOLE,
                    minReplicas=WHOLE,
                    maxReplicas=WHOLE,
                    labels=TEXTS,
                    rayStartParams=TEXTS,
                    template=TEMPLATE,
                )
            ),
        ),
    ),
    "ConfigMap": kind("v1", "ConfigMap", data=TEXTS),
    "ServiceAccount": kind("v1", "ServiceAccount"),
    "Role": kind(
        "rbac.authorization.k8s.io/v1",
        "Role",
        rules=several(
            fields(
                "apiGroups resources verbs",
                apiGroups=several({"type": "string"}),
                resources=several(TEXT),
                verbs=several(TEXT),
            )
        ),
    ),
    "RoleBinding": kind(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef=fields("apiGroup kind name", apiGroup=TEXT, kind=one_of("Role"), name=NAME),
        subjects=several(fields("kind name", kind=one_of("ServiceAccount"), name=NAME)),
    ),
    "Job": kind(
        "batch/v1",
        "Job",
        spec=fields("template", backoffLimit=WHOLE, ttlSecondsAfterFinished=WHOLE, template=TEMPLATE),
    ),
    "Service": kind(
        "v1",
        "Service",
        spec=fields(
            "type selector ports",
            type=one_of("ClusterIP", "NodePort", "LoadBalancer"),
            selector=TEXTS,
            ports=several(
                fields(
                    "name port targetPort",
                    name=PORT_NAME,
                    port=PORT,
                    targetPort=PORT_NAME,
                    protocol=one_of("TCP"),
                )
            ),
        ),
    ),
    "NetworkPolicy": kind(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec=fields(
            "podSelector policyTypes ingress",
            podSelector=LABELS,
            policyTypes=several(one_of("Ingress", "Egress")),
            ingress=several(
                {
                    **fields(
                        **{"from": several(fields(podSelector=LABELS, namespaceSelector=LABELS))},
                        ports=several(fields("port", port=PORT_NAME, protocol=one_of("TCP"))),
                    ),
                    "minProperties": 1,
                }
            ),
        ),
    ),
    "PodDisruptionBudget": kind(
        "policy/v1",
        "PodDisruptionBudget",
        spec=fields(
            "maxUnavailable selector", maxUnavailable={"type": "integer", "minimum": 1}, selector=LABELS
        ),
    ),
    "PodMonitor": kind(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        spec=fields(
            "selector podMetricsEndpoints",
            selector=fields("matchLabels", matchLabels=TEXTS),
            podMetricsEndpoints=several(fields("port", port=PORT_NAME, path=TEXT, interval=TEXT)),
        ),
    ),
}
