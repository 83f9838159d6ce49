"""The filter language in one module: every way to write a filter, and all operations on filters."""

from ..filters.filter import Filter, FilterLike, normalize_predicate, to_predicate
from .builders import Attribute, attr
from .comparing import covers, intersects, merge
from .doubts import doubts_about, doubts_to_tell, to_filter
from .patterns import parse_pattern
from .predicates import Predicate, compile_predicate, evaluate
from .selectors import Dialect, dialect_of, parse_selector

__all__ = [
    "Attribute",
    "Dialect",
    "Filter",
    "FilterLike",
    "Predicate",
    "attr",
    "compile_predicate",
    "covers",
    "dialect_of",
    "doubts_about",
    "doubts_to_tell",
    "evaluate",
    "intersects",
    "merge",
    "normalize_predicate",
    "parse_pattern",
    "parse_selector",
    "to_filter",
    "to_predicate",
]
