"""Stores of an earlier version name classes and fields as these were called then."""

import sys
from base64 import b64decode
from importlib import import_module

import pytest
from rayvous.protocol.messages.views import MembershipView, ViewMember, ViewWants
from rayvous.protocol.snapshots import RENAMED, RENAMED_ATTRIBUTES, Part, restore_state
from rayvous.recovery.durability.codec import decode, encode

STORED = {
    "CubeView": (
        "VoAFlbAAAAAAAAAAjB9yYXl2b3VzLnByb3RvY29sLm1lc3NhZ2VzLnZpZXdzlIwIQ3ViZVZpZXeUk5QpgZR9lCiMB3ZlcnNpb26USwOMCmRp"
        "bWVuc2lvbnOUSwGMC2NsdXN0ZXJfbWF4lEsEjAVzZWF0c5RoAIwIQ3ViZVNlYXSUk5RLBUsHSwGHlIGUaApLBooFAAAAgABLAoeUgZSGlIwN"
        "ZG91YnRfc2Vjb25kc5RHP+AAAAAAAAB1Yi4=",
        MembershipView(3, 1, 4, (ViewMember(5, 7, 1), ViewMember(6, 1 << 31, 2)), 0.5),
    ),
    "CubeWants": (
        "VoAFlUkAAAAAAAAAjB9yYXl2b3VzLnByb3RvY29sLm1lc3NhZ2VzLnZpZXdzlIwJQ3ViZVdhbnRzlJOUKYGUXZQoSwFLAksDKX2UjAFhlEsE"
        "c2ViLg==",
        ViewWants(1, 2, 3, (), {"a": 4}),
    ),
}
"""What an earlier version wrote, and what it is now."""


@pytest.mark.parametrize("name", STORED)
def test_a_value_is_read_that_was_stored_under_a_former_name(name: str) -> None:
    stored, value = STORED[name]
    assert decode(b64decode(stored)) == value == decode(encode(value))


@pytest.mark.parametrize("former", RENAMED, ids=lambda former: former[1])
def test_a_former_name_names_a_class_that_there_is_and_no_other(former: tuple[str, str]) -> None:
    module, name = former
    there = sys.modules[f"rayvous{module}"]
    assert isinstance(getattr(there, RENAMED[former]), type) and not hasattr(there, name)


def test_a_snapshot_restores_a_part_under_its_former_name() -> None:
    class Holder:
        part: object = None

    holder = Holder()
    restore_state(holder, {"part": Part("tuple", ".protocol.messages.views:CubeSeat", (5, 7, 1))})
    assert holder.part == ViewMember(5, 7, 1)


@pytest.mark.parametrize(
    "former", RENAMED_ATTRIBUTES, ids=lambda former: f"{former[0].rpartition(':')[2]}.{former[1]}"
)
def test_a_snapshot_restores_an_attribute_under_its_former_name(former: tuple[str, str]) -> None:
    where, name = former
    module, _, kind = where.partition(":")
    machine = object.__new__(getattr(import_module(f"rayvous{module}"), kind))
    restore_state(machine, {name: 7})
    assert getattr(machine, RENAMED_ATTRIBUTES[former]) == 7 and not hasattr(machine, name)
