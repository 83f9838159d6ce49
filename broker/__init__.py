"""A broker as a value machine: a pipeline of layers, assembled from the features that are asked for. Pure."""

from .books import books_of
from .broker import Broker
from .healing import newcomer, rendezvous_of, start_of
from .pipeline import Pipeline
from .routes import routes_of

__all__ = [
    "Broker",
    "Pipeline",
    "books_of",
    "newcomer",
    "rendezvous_of",
    "routes_of",
    "start_of",
]
