"""The figures and tables of the papers, reproduced."""

from typing import Final

WRITTEN: Final = "experiments.json"
"""The file in a folder of experiments that lists them, and how they were run."""

TITLES: Final = {
    "tct": "Paper 1, figure 4: what hybrid and hierarchical routing cost, by subscribers and publishers.",
    "aed": "Paper 1, figure 5: how long events take under both, by subscribers and publishers.",
    "selfconfig": "Paper 1, section 4: how long the death of a broker, a cluster, the root or a link is felt.",
    "hypercube-load": "Paper 2, figure 6: what brokers carry of broadcasts, by how many they start.",
    "hypercube-replies": "Paper 2, figure 7: what brokers carry of replies, by how many they send.",
    "hypercube-hops": "Paper 2, formula (1) and figure 3: how far replies and broadcasts go, by dimensions.",
    "hypercube-migration": "Paper 2, figure 5: what a subscription takes before and after its subscriber moves.",
    "hypercube-saving": "Paper 2, abstract: what a hypercube saves against hierarchies, and where it does not.",
    "admission-discard": "Paper 3, figure 9: discards and rejections under no, full, 20 % and 40 % admission control.",
    "admission-utilisation": "Paper 3, figure 10: what is used of CPU, memory and links under the same.",
    "reliability": "Paper 4: messages, stable writes and time to consistency, by crashes and damaged state.",
    "lbdd-delay": "Paper 5, figure 1: how long 8 GB take to eleven subscribers, by LBDD and point-to-point.",
    "lbdd-rate": "Paper 5, figure 2: how much a subscriber gets in a second under both, by subscribers.",
    "lbdd-load": "Paper 5, figure 3: how busy the publisher's link is under both, by subscribers.",
    "lbdd-depth": "Paper 5, table 1: how deep the trees of 100 to 500 subscribers are.",
    "lbdd-contribution": "Paper 5, figure 4: who sends which part of all copies.",
    "compare": "All routing schemes on one load: messages, tables, balance, healing.",
    "scale": "All routing schemes as networks grow: messages, tables, healing, the simulator's speed.",
}
"""The title of each experiment of `catalogue`, in its order."""
