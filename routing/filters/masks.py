"""Vectorised test of a domain: which events of a batch have an attribute in it.

Rules
-----
* The result is the same as testing each event by itself. Integers and floats compare exactly, although numpy would
  round a large integer: a bound is first moved to the nearest value that the column type can hold.
* A string is tested once per distinct word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...protocol.batch import Column, EventBatch, Mask
from ...protocol.values import INTEGER_MAX, INTEGER_MIN, Kind
from .domains import Domain
from .intervals import EVERYTHING, Interval, Intervals, numeric

_KINDS: Final = tuple(Kind)


def domain_mask(batch: EventBatch, name: str, domain: Domain) -> Mask:
    """Return one boolean per event: whether its attribute `name` is in the domain."""
    columns = (batch.columns.get((name, kind)) for kind in _KINDS)
    return mask_of([column for column in columns if column is not None], len(batch), domain)


def mask_of(columns: Iterable[Column], size: int, domain: Domain) -> Mask:
    """Return one boolean per event: whether its value, in one of the columns or missing, is in the domain."""
    hits = np.zeros(size, np.bool_)
    missing = np.ones(size, np.bool_) if domain.missing else None
    for column in columns:
        hit = _column_mask(column, domain)
        if column.present is not None:
            hit = hit & column.present
        hits |= hit
        if missing is not None:
            missing &= False if column.present is None else ~column.present
    return hits if missing is None else hits | missing


def _column_mask(column: Column, domain: Domain) -> Mask:
    data = column.data
    if column.kind is Kind.STRING:
        if not column.words or not domain.strings.intervals:
            return np.zeros(len(data), np.bool_)
        return _verdicts(column, domain).take(
            data, mode="clip"
        )  # the code of an event without the attribute is arbitrary
    if column.kind is Kind.BOOLEAN:
        allowed = np.array([False in domain.booleans, True in domain.booleans])
        return allowed[data.astype(np.intp)]
    if column.kind is Kind.NULL:
        return data if domain.null else np.zeros(len(data), np.bool_)
    if column.kind is Kind.TIMESTAMP:
        return _union_mask(data, domain.timestamps, exact_floats=False)
    return _union_mask(data, domain.numbers, exact_floats=column.kind is Kind.FLOAT)


def _verdicts(column: Column, domain: Domain) -> Mask:
    """Return one boolean per word: whether it is in the domain; single words are looked up, not compared."""
    strings = domain.strings
    if not strings.likes and all(interval.is_point for interval in strings.intervals):
        verdicts = np.zeros(len(column.words), np.bool_)
        for interval in strings.intervals:
            code = column.codes().get(interval.low)  # type: ignore[arg-type]
            if code is not None:
                verdicts[code] = True
        return verdicts
    return np.fromiter(map(strings.test(), column.words), np.bool_, len(column.words))


def _union_mask(data: npt.NDArray[Any], intervals: Intervals, *, exact_floats: bool) -> Mask:
    if intervals == EVERYTHING:
        return np.ones(len(data), np.bool_)
    points = [interval.low for interval in intervals if interval.is_point]
    hits = np.zeros(len(data), np.bool_)
    if points:
        hits |= np.isin(data, _held_by(points, exact_floats=exact_floats))
    one_interval = _float_mask if exact_floats else _integer_mask
    for interval in intervals:
        if not interval.is_point:
            hits |= one_interval(data, interval)
    return hits


def _held_by(points: list[Any], *, exact_floats: bool) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Return those of the points that a float64 (or int64) array can hold exactly."""
    if exact_floats:
        return np.array([float(p) for p in points if float(p) == p], np.float64)
    return np.array([int(p) for p in points if int(p) == p and INTEGER_MIN <= p <= INTEGER_MAX], np.int64)


def _integer_mask(data: npt.NDArray[np.int64], interval: Interval) -> Mask:
    hits = np.ones(len(data), np.bool_)
    low, high = numeric(interval)
    if low is not None:
        least = math.floor(low) + 1 if interval.low_open else math.ceil(low)
        if least > INTEGER_MAX:
            return np.zeros(len(data), np.bool_)
        if least > INTEGER_MIN:
            hits &= data >= least
    if high is not None:
        greatest = math.ceil(high) - 1 if interval.high_open else math.floor(high)
        if greatest < INTEGER_MIN:
            return np.zeros(len(data), np.bool_)
        if greatest < INTEGER_MAX:
            hits &= data <= greatest
    return hits


def _float_mask(data: npt.NDArray[np.float64], interval: Interval) -> Mask:
    hits = np.ones(len(data), np.bool_)
    low, high = numeric(interval)
    if low is not None:
        near = float(low)
        # If the bound was rounded up, the rounded bound is above the true one and included; rounded down, it is
        # below.
        included = near > low or (near == low and not interval.low_open)
        hits &= data >= near if included else data > near
    if high is not None:
        near = float(high)
        included = near < high or (near == high and not interval.high_open)
        hits &= data <= near if included else data < near
    return hits
