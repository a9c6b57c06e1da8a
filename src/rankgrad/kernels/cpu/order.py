"""Sorting for CPU kernels: a radix sort by the bytes of the values. The time is linear in the number of documents."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrad.kernels.cpu import helper

GRADES = 32  # integer labels below this number are sorted by counting
FEW = 16  # up to this number of documents, insertion sort is faster than radix sort


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """Return the bits of float values as signed integers for a CPU sort, in the same memory; see `descending`."""
    return values.view(np.int32 if values.itemsize == 4 else np.int64)


@helper
def descending(values, bits, place):
    """Sort positions in a CPU kernel, in descending order of `values`. Ties keep their order, and NaN comes last."""
    count = len(place)
    keys, moved_keys = np.empty(count, np.int64), np.empty(count, np.int64)
    moved_place = np.empty_like(place)
    highest = np.int64(0x7FFFFFFF) if values.itemsize == 4 else np.int64(0x7FFFFFFFFFFFFFFF)
    for i in range(count):
        value, key = values[place[i]], np.int64(bits[place[i]])
        if value == 0.0:
            key = np.int64(0)  # -0.0 is equal to 0.0
        # Keys are compared as unsigned integers, in ascending order. The bits of a float >= 0 increase with the float,
        # so they are inverted. The bits of a float < 0 decrease, as required. The sign bit puts negative floats last.
        key = key ^ highest if key >= 0 else (key & highest) ^ ~highest
        keys[i] = key if value == value else np.int64(-1)
    if count <= FEW:
        for i in range(1, count):
            key, own, j = keys[i], place[i], i
            while j > 0 and np.uint64(keys[j - 1]) > np.uint64(key):
                keys[j], place[j] = keys[j - 1], place[j - 1]
                j -= 1
            keys[j], place[j] = key, own
        return
    begin = np.empty(256, np.int64)
    for shift in range(0, 8 * values.itemsize, 8):
        for digit in range(256):
            begin[digit] = 0
        for i in range(count):
            begin[(keys[i] >> shift) & 255] += 1
        if begin[(keys[0] >> shift) & 255] == count:
            continue  # all keys have the same byte
        total = 0
        for digit in range(256):
            total += begin[digit]
            begin[digit] = total - begin[digit]
        for i in range(count):
            digit = (keys[i] >> shift) & 255
            moved_keys[begin[digit]] = keys[i]
            moved_place[begin[digit]] = place[i]
            begin[digit] += 1
        for i in range(count):
            keys[i], place[i] = moved_keys[i], moved_place[i]


@helper
def by_label(labels, label_bits, place):
    """Sort positions in a CPU kernel, in descending order of labels. Small integer labels are sorted by counting.

    All other labels are sorted by `descending`, which is slower. Ties keep their order.
    """
    begin = np.zeros(GRADES, np.int64)
    for i in range(len(place)):
        label = labels[place[i]]
        if not 0 <= label < GRADES or np.int64(label) != label:
            descending(labels, label_bits, place)
            return
        begin[np.int64(label)] += 1
    total = len(place)
    for grade in range(GRADES):  # the highest grade comes first
        total -= begin[grade]
        begin[grade] = total
    moved = place.copy()
    for i in range(len(place)):
        grade = np.int64(labels[moved[i]])
        place[begin[grade]] = moved[i]
        begin[grade] += 1
