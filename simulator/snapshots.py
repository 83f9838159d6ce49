"""Snapshots of a simulated network: the whole of it, its future included, as it is at one moment.

Rules
-----
* A network that is made from a snapshot goes on exactly as the one that was taken: the same messages, at the same
  times. Neither can change the other, and a snapshot gives any number of networks.
* Who watches the network (`spectator`) is not in it.
* What nobody changes is shared: classes, code, and functions that close over nothing. A function that closes over the
  network, or finds it among the names of its module, gets the new one.
* A snapshot lives in this process. A network that has a file or a connection open cannot be taken.
"""

from __future__ import annotations

import io
import pickle
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from ..protocol.errors import InputError
from ..routing.matching.covering_dag import DagNode
from ..routing.matching.index import MatchIndex
from .hosts import Connection, Host
from .network import SimulatedNetwork

N = TypeVar("N", bound=SimulatedNetwork)

_Known: TypeAlias = (
    "tuple[tuple[object, ...] | None, dict[str, object] | None, tuple[object, ...], dict[str, object]]"
)
"""The defaults of a function, what it closes over, and the names of its module that mean the network."""

_APART: Final = (Host, Connection, DagNode)
"""What is written one by one, since each refers to others that refer to others."""


class Snapshot(Generic[N]):
    """A simulated network at one moment.

    Parameters
    ----------
    network
        The network; it is left as it is.

    Raises
    ------
    InputError
        If it has something that cannot be taken, such as a store in a file.
    """

    def __init__(self, network: N) -> None:
        self._shared: list[object] = []
        self._kinds: list[type] = []
        file = io.BytesIO()
        try:
            _Writer(file, network, self._shared, self._kinds).write()
        except (TypeError, pickle.PicklingError, AttributeError) as error:
            raise InputError(
                f"this network cannot be taken as it is: {error}. Stores in memory can be (in_memory), and actions "
                "that are methods of the network: net.at(3.0, net.crash, 7)"
            ) from None
        self._written = file.getvalue()

    def __len__(self) -> int:
        """Return its size in bytes."""
        return len(self._written)

    def network(self) -> N:
        """Return a new network that goes on from this moment."""
        return cast(N, _Reader(io.BytesIO(self._written), self._shared, self._kinds).read())


class _Writer(pickle.Pickler):
    def __init__(
        self, file: io.BytesIO, network: SimulatedNetwork, shared: list[object], kinds: list[type]
    ) -> None:
        super().__init__(file, protocol=5)
        self._network, self._shared, self._kinds = network, shared, kinds
        self._spectator = network.spectator
        self._places: dict[int, int] = {}
        self._modules: set[int] = set()
        self._apart: list[object] = []

    def write(self) -> None:
        self.dump(self._network)
        for node in self._apart:  # grows meanwhile
            state = node.__getstate__()
            assert isinstance(state, tuple)
            self.dump(state[1])

    def persistent_id(self, value: object) -> tuple[str, int] | None:
        if isinstance(value, _APART):
            place = self._places.get(id(value))
            if place is None:
                place = self._places[id(value)] = len(self._apart)
                self._apart.append(value)
                self._kinds.append(type(value))
            return "apart", place
        if value is self._spectator and value is not None:
            return "nobody", 0
        if isinstance(value, type | CodeType | ModuleType) or self._stays(value):
            place = self._places.get(id(value))
            if place is None:
                place = self._places[id(value)] = len(self._shared)
                self._shared.append(value)
            return "shared", place
        return None

    def _stays(self, value: object) -> bool:
        """Return whether it is a function that knows nothing of the network, or are the names of a module."""
        if isinstance(value, FunctionType):
            return not value.__closure__ and not self._names(value)
        return type(value) is dict and id(value) in self._modules

    def _names(self, function: FunctionType) -> list[str]:
        """Return the names of its module by which a function finds the network."""
        there, names = function.__globals__, list[str]()
        codes = [function.__code__]
        for code in codes:
            names += [name for name in code.co_names if there.get(name) is self._network]
            codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        return names

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, MatchIndex):  # it has columns in the compiled kernel
            return MatchIndex, (value.kernel,), value.snapshot(), None, None, MatchIndex.restore
        if isinstance(value, MethodType):
            return MethodType, (value.__func__, value.__self__)
        if isinstance(value, FunctionType):
            self._modules.add(id(value.__globals__))
            found = dict.fromkeys(self._names(value), self._network)
            made = (
                value.__code__,
                value.__globals__,
                value.__name__,
                tuple(found),
                len(value.__closure__ or ()),
            )
            cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
            state = value.__defaults__, value.__kwdefaults__, cells, found
            return _function, made, state, None, None, _know
        return NotImplemented


def _function(
    code: CodeType, module: dict[str, object], name: str, names: tuple[str, ...], cells: int
) -> FunctionType:
    """Return a function of this code that does not know yet what it closes over."""
    there = {**module, **dict.fromkeys(names)} if names else module
    return FunctionType(code, there, name, None, tuple(CellType() for _ in range(cells)))


def _know(function: FunctionType, state: _Known) -> None:
    """Give a function its defaults, what it closes over, and the names of its module that mean another network."""
    function.__defaults__, function.__kwdefaults__, contents, found = state
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        cell.cell_contents = content
    if found:
        function.__globals__.update(found)


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shared: list[object], kinds: list[type]) -> None:
        super().__init__(file)
        self._shared = shared
        self._apart: list[object] = [object.__new__(kind) for kind in kinds]

    def read(self) -> object:
        network = self.load()
        for node in self._apart:
            for name, value in self.load().items():
                setattr(node, name, value)
        return network

    def persistent_load(self, key: tuple[str, int]) -> object:
        kind, place = key
        if kind == "nobody":
            return None
        return (self._apart if kind == "apart" else self._shared)[place]
