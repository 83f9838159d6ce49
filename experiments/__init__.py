"""The figures and tables of the papers, reproduced."""

from typing import Final

WRITTEN: Final = "experiments.json"
"""The file in a folder of experiments that lists them, and how they were run."""

TITLES: Final = {
    "tct": "Paper 1, figure 4: total cost of hybrid and hierarchical routing, by subscribers and publishers.",
    "aed": "Paper 1, figure 5: event delay under both, by subscribers and publishers.",
    "selfconfig": "Paper 1, section 4: recovery time after the failure of a broker, a cluster, the root or a link.",
    "hypercube-load": "Paper 2, figure 6: load of brokers by broadcasts, by the number that they start.",
    "hypercube-replies": "Paper 2, figure 7: load of brokers by replies, by the number that they send.",
    "hypercube-hops": "Paper 2, formula (1) and figure 3: hops of replies and broadcasts, by dimensions.",
    "hypercube-migration": "Paper 2, figure 5: messages for a subscription before and after its subscriber moves.",
    "hypercube-saving": "Paper 2, abstract: messages and load of a hypercube compared with hierarchies.",
    "admission-discard": "Paper 3, figure 9: discards and rejections under no, full, 20 % and 40 % admission control.",
    "admission-utilisation": "Paper 3, figure 10: use of CPU, memory and links under the same.",
    "reliability": "Paper 4: messages, stable writes and time to consistency, by crashes and damaged state.",
    "lbdd-delay": "Paper 5, figure 1: time to send 8 GB to eleven subscribers, by LBDD and point-to-point.",
    "lbdd-rate": "Paper 5, figure 2: rate of a subscriber under both, by subscribers.",
    "lbdd-load": "Paper 5, figure 3: load of the publisher's link under both, by subscribers.",
    "lbdd-depth": "Paper 5, table 1: depth of the trees of 100 to 500 subscribers.",
    "lbdd-contribution": "Paper 5, figure 4: each broker's share of the copies sent.",
    "compare": "All routing schemes on one load: messages, tables, balance, healing.",
    "scale": "All routing schemes as networks grow: messages, tables, healing, the simulator's speed.",
}
"""The title of each experiment of `catalogue`, in its order."""
