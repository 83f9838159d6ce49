"""`make test` runs the tests on Ray and Spark in two processes, with one Spark; processes share what they import."""

from pathlib import Path

import pytest
from dealing import FromTheEnd, OneSpark

MAKEFILE = Path(__file__).parent.parent / "Makefile"


def test_files_are_dealt_and_all_tests_on_spark_as_one():
    deals = OneSpark.__new__(OneSpark)
    tests = (
        "on_ray/test_links.py::test_a[direct]",
        "on_ray/test_links.py::test_b",
        "on_ray/test_names.py::test_c",
    )
    links, again, names = (deals._split_scope(f"tests/{test}") for test in tests)
    assert links == again != names
    spark = {
        deals._split_scope(f"tests/on_spark/{file}.py::test_d") for file in ("test_report", "test_audit")
    }
    assert len(spark) == 1


def test_no_test_on_ray_or_spark_runs_twice_in_make_test():
    rules = MAKEFILE.read_text(encoding="utf-8")
    assert "--dist loadfile --durations=10 tests/on_ray tests/on_spark\n" in rules
    assert "-j 2 real beside;" in rules and "--ignore=tests/on_ray --ignore=tests/on_spark" in rules


class Names:
    """Notes which tests were found, in the order of their import and in that of their names at last."""

    def __init__(self):
        self.found, self.named = [], []

    def pytest_itemcollected(self, item):
        self.found.append(item.nodeid)

    def pytest_collection_finish(self, session):
        self.named = [item.nodeid for item in session.items]


def test_two_processes_import_from_both_ends_and_name_the_tests_in_the_same_order(tmp_path):
    files = [f"{folder}/test_{folder}{number}.py" for folder in "ba" for number in (1, 2, 3)]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_x(): pass\ndef test_w(): pass\n")
    (tmp_path / "pytest.ini").touch()
    # `pytest b a`: what a user names first comes first.
    words = ["-p", "no:terminal", "--import-mode=importlib", "--collect-only", "--rootdir", str(tmp_path)]
    words += ["-c", str(tmp_path / "pytest.ini"), *(str(tmp_path / folder) for folder in "ba")]
    first, second = Names(), Names()
    assert pytest.main(words, plugins=[first]) == pytest.main(words, plugins=[FromTheEnd(), second]) == 0
    tests = [f"{name}::test_{each}" for name in files for each in "xw"]
    assert first.found == first.named == second.named == tests
    assert sorted(second.found) == sorted(tests) != second.found
    below, turned = Names(), Names()
    words = [*words[:-2], str(tmp_path)]
    assert pytest.main(words, plugins=[below]) == pytest.main(words, plugins=[FromTheEnd(), turned]) == 0
    assert below.found == below.named == turned.named
    assert [name.partition("::")[0] for name in turned.found[::2]] == [*files[:2:-1], *files[2::-1]]
