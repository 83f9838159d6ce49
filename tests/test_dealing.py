"""`make test` runs the tests on Ray and Spark in two processes, and starts one Spark."""

from pathlib import Path

from dealing import OneSpark

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
