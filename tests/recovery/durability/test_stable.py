"""Addresses of stores: what they name, which are refused, and that a password is never shown."""

from pathlib import Path
from typing import Any

import pytest
import rayvous as rv
from rayvous.protocol import extras
from rayvous.protocol.errors import InputError, MissingExtra
from rayvous.protocol.messages.recovery import RENDEZVOUS
from rayvous.recovery.durability.postgresql_database import database_of
from rayvous.recovery.durability.sqlite_store import SqliteBackend
from rayvous.recovery.durability.stable import BACKENDS, part_of

SECRET = "pa55"


@pytest.mark.parametrize(
    ("address", "folder"),
    [("state", "state"), (Path("/data"), "/data"), ("sqlite:///state", "state"), ("sqlite:////data/x", "/data/x")],
)  # fmt: skip
def test_a_folder(address: str | Path, folder: str) -> None:
    backend = rv.Stable(address).validate().backend()
    assert isinstance(backend, SqliteBackend) and backend.folder == Path(folder)
    assert backend.file_of(3) == Path(folder).absolute() / "broker-3.sqlite"
    assert backend.file_of(RENDEZVOUS) == Path(folder).absolute() / "rendezvous.sqlite"


@pytest.mark.parametrize(
    ("address", "conninfo", "schema", "shown"),
    [
        ("postgresql://", "postgresql://", "rayvous", "postgresql://?schema=rayvous"),
        (
            f"postgresql://ann:{SECRET}@db.example:5432/flights?schema=west&sslmode=require",
            f"postgresql://ann:{SECRET}@db.example:5432/flights?sslmode=require",
            "west",
            "postgresql://ann@db.example:5432/flights?schema=west",
        ),
        (
            f"postgres://a:1,[::1]:2/x?password={SECRET}%20&host=/run/pg",
            f"postgres://a:1,[::1]:2/x?password={SECRET}%20&host=/run/pg",
            "rayvous",
            "postgresql://a:1,[::1]:2/x?schema=rayvous",
        ),
    ],
)
def test_a_database(address: str, conninfo: str, schema: str, shown: str) -> None:
    database = database_of(address)
    assert (database.conninfo, database.schema, database.shown) == (conninfo, schema, shown)
    assert SECRET not in f"{database!r}{rv.Stable(address)!r}{database.told(f'wrong: {address}')}"
    assert shown in repr(rv.Stable(address))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"postgresql://ann:{SECRET}/x@db/flights", "cannot be read"),
        (f"postgresql://ann:{SECRET}%zz@db/flights", "cannot be read"),
        (f"postgresql://ann:{SECRET}#@db/flights", "cannot be read"),
        (f"postgresql:/ann:{SECRET}@db", "cannot be read"),
        (Path(f"postgresql://ann:{SECRET}@db"), "cannot be read"),
        (f"postgresql://ann:{SECRET}@db/x?schema=West", "schema is 'West'"),
        (f"mysql://ann:{SECRET}@db/flights", "mysql:/... is not a known kind of address"),
        ("sqlite:///", "an address of files is a folder, or sqlite:///folder"),
        ("sqlite:/x", "an address of files is a folder, or sqlite:///folder"),
        ("", "address is ''"),
        (3, "address is 3"),
    ],
)
def test_a_wrong_address_is_refused_and_not_repeated(address: Any, said: str) -> None:
    stable = rv.Stable(address)
    with pytest.raises(InputError) as error:
        stable.validate()
    assert said in str(error.value)
    assert SECRET not in f"{error.value}{stable!r}"


def test_an_unknown_scheme_is_told_which_there_are() -> None:
    with pytest.raises(InputError) as error:
        rv.Stable("oracle://db/x").validate()
    assert [kind.form for kind in BACKENDS.values() if kind.form not in str(error.value)] == []
    assert "module:Class://" in str(error.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("no_such_module:Kind://x", "cannot import 'no_such_module'"),
        ("pathlib:Kind://x", "there is no class 'Kind' in 'pathlib'"),
        ("pathlib:Path://x", "pathlib:Path is not a backend: derive it from"),
    ],
)
def test_a_wrong_backend_of_ones_own_is_told(address: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rv.Stable(address).validate()
    assert "cannot be used" in repr(rv.Stable(address))


def test_pages_are_of_files() -> None:
    with pytest.raises(InputError, match="pages_max is a limit of files"):
        rv.Stable("postgresql://db/x", pages_max=100).validate()


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_installed", lambda module: module != "psycopg")
    with pytest.raises(MissingExtra, match=r"psycopg is not installed: pip install 'rayvous\[postgresql\]'"):
        rv.Network.launch(rv.ClusterTree(1, 1), stable=rv.Stable("postgresql://db/x"))


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("a/b", Path("a/b/seed-7")),
        ("sqlite:///a/b", Path("a/b/seed-7")),
        ("postgresql://u@h/d", "postgresql://u@h/d?schema=rayvous_seed_7"),
        (
            "postgresql://h/d?sslmode=require&schema=chaos",
            "postgresql://h/d?sslmode=require&schema=chaos_seed_7",
        ),
    ],
)
def test_a_part_of_an_address_is_a_folder_below_it_or_a_schema_of_its_own(address: str, part: Any) -> None:
    assert part_of(address, "seed-7") == part
    rv.Stable(part).validate()
