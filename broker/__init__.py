"""A broker as a value machine: a pipeline of layers, assembled from the features that are asked for. Pure."""

from .books import books_of
from .broker import Broker
from .capabilities import MISSING, check
from .healing import HEALING, HEALING_SCHEMES, newcomer, rendezvous_of, start_of
from .pipeline import Pipeline
from .routes import routes_of

__all__ = [
    "HEALING",
    "HEALING_SCHEMES",
    "MISSING",
    "Broker",
    "Pipeline",
    "books_of",
    "check",
    "newcomer",
    "rendezvous_of",
    "routes_of",
    "start_of",
]
