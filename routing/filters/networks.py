"""Networks of addresses: the strings that are an IPv4 or IPv6 address of a block.

Rules
-----
* A string is either an address or not; host names are not looked up. An IPv6 address may be written in any valid
  notation; an IPv4-mapped IPv6 address equals the IPv4 address.
* Containment and disjointness of two blocks are decided exactly.

Source: RFC 4632, section 3.1 (the prefix of a block); RFC 4291, section 2.2 (addresses as text), 2.5.5.2 (mapped ones).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...protocol.errors import SelectorError

ADDRESS_CHARACTERS_MAX: Final = 45


@dataclass(frozen=True, slots=True)
class Network:
    """The strings that are an address of a block, or (negated) all others.

    Attributes
    ----------
    version
        4 or 6.
    block
        The prefix: the first `length` bits of each address.
    length
        The number of bits.
    """

    version: int
    block: int
    length: int
    negated: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        return Network, (self.version, self.block, self.length, self.negated)

    def __str__(self) -> str:
        """Return the block as ``10.0.0.0/8``."""
        return f"{self.first}/{self.length}"

    @property
    def first(self) -> str:
        """The first address."""
        kind = ipaddress.IPv4Address if self.version == 4 else ipaddress.IPv6Address
        return str(kind(self.block << (_bits(self.version) - self.length)))

    @property
    def prefix(self) -> str:
        """The common prefix of all strings: empty, since an address can be written in several ways."""
        return ""

    @property
    def characters(self) -> int:
        """The maximum length as text."""
        return ADDRESS_CHARACTERS_MAX + 4

    @property
    def inverse(self) -> Network:
        """The negated condition."""
        return Network(self.version, self.block, self.length, not self.negated)

    def matches(self, text: str) -> bool:
        """Return whether a string satisfies the condition."""
        return self._holds(text) is not self.negated

    def test(self) -> Callable[[str], bool]:
        """Return a function that tells whether a string satisfies the condition."""
        return self.matches

    def _holds(self, text: str) -> bool:
        address = address_of(text)
        return (
            address is not None
            and address[0] == self.version
            and address[1] >> (_bits(self.version) - self.length) == self.block
        )

    def implies(self, other: object) -> bool:
        """Return True only if every string that satisfies this condition satisfies `other`; exact for two networks."""
        if not isinstance(other, Network):
            return False
        if self.negated:
            return other.negated and other._inside(self)
        return not self._meets(other) if other.negated else self._inside(other)

    def excludes(self, other: object) -> bool:
        """Return True only if no string satisfies both."""
        return isinstance(other, Network) and self.implies(other.inverse)

    def _inside(self, other: Network) -> bool:
        return (
            self.version == other.version
            and self.length >= other.length
            and self.block >> (self.length - other.length) == other.block
        )

    def _meets(self, other: Network) -> bool:
        return self._inside(other) or other._inside(self)

    def sort_key(self) -> tuple[object, ...]:
        """Return a key that gives conditions a total order; networks sort after patterns."""
        return 1, self.negated, (self.version, self.block, self.length)


def _bits(version: int) -> int:
    return 32 if version == 4 else 128


def address_of(text: str) -> tuple[int, int] | None:
    """Return (version, number) of an address, or None when the text is not an address."""
    if len(text) > ADDRESS_CHARACTERS_MAX or "%" in text:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    return address.version, int(address)


def network_of(text: str) -> Network:
    """Parse a block such as ``10.0.0.0/8`` or ``2001:db8::/32``.

    Raises
    ------
    SelectorError
        If the text is not a block.
    """
    start, _, length = text.partition("/")
    if not (length.isascii() and length.isdigit() and len(length) <= 3 and address_of(start)):
        raise SelectorError(
            f"{text[:60]!r} is not a network: write an address and a length, 10.0.0.0/8 or 2001:db8::/32"
        )
    address = ipaddress.ip_address(start)
    bits = _bits(address.version)
    if int(length) > bits:
        raise SelectorError(f"{text!r} is not a network: the length is at most {bits}")
    if getattr(address, "ipv4_mapped", None):
        raise SelectorError(f"{text!r} is a network of IPv4 addresses: write it as one")
    return Network(address.version, int(address) >> (bits - int(length)), int(length))
