"""The Numba parser of LETOR text: `count_lines` for the first pass, `parse_lines` for the second.

Both functions release the GIL, so several threads can call them at the same time. A block ends with a newline, so no
loop below checks for the end of the text. The parser finds a bad line, but does not explain the error:
`rankgrad.data.letor.errors` reads the line again and explains it.

Compiled code is cached on disk, in a folder whose name contains a hash of the files `_SOURCES`. Therefore, all compiled
code must be in these files.
"""

# mypy: disallow-untyped-defs=False, check-untyped-defs=False

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from rankgrad.data.letor.decimals import EXACT_POWERS, HIGHEST, LOWEST, powers_of_five
from rankgrad.data.letor.errors import LONGEST_ID
from rankgrad.kernels.numba_cache import folder_of, keep

# Reasons why `parse_lines` returns: end of the block, `slow` is full, no row is left for a document, bad line.
DONE, FULL, NO_ROW, BAD = range(4)

# Index of each count in the tally of `count_lines`.
LINES, DOCUMENTS, BLANK, COMMENTS, WIDEST, DOCID_WIDTH, COMMENTED, COUNTS = range(8)

# Index of each number in the state of `parse_lines`, which all calls for one block use.
AT, ROW, LINE, LISTS, SLOW, MISSING, FEWEST, MOST, BARE, TEXT_IDS, REPLACED, INFINITE, STATES = range(13)

_NUMBER, _NOT_FINITE, _TOO_LONG, _NO_NUMBER = range(4)
_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON = (ord(c) for c in "\t\n\r #+-.0:")
_LOWER = 0x20  # bit that makes an ASCII letter lower case
_UPPER_FIVE, _LOWER_FIVE = powers_of_five()
_NAN, _INF, _INITY, _DOCID = tuple(b"nan"), tuple(b"inf"), tuple(b"inity"), tuple(b"docid")

_SOURCES = [Path(__file__).with_name(name) for name in ("parser.py", "decimals.py", "errors.py")]
_FOLDER = folder_of("parser", _SOURCES)
_inner = numba.njit(nogil=True, error_model="numpy")


def _compiled(function: Callable[..., Any]) -> Any:
    return keep(_inner(function), _FOLDER)


@_inner
def _product(a, b):
    """Return the upper and the lower 64 bits of the product of two 64-bit numbers, to parse a decimal of LETOR text."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half), a * b


@_inner
def _nearest_double(mantissa, exponent):
    """Round a parsed decimal, `mantissa * 10**exponent`; return the double, and True if 128 bits were enough."""
    shift = np.uint64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if mantissa >> np.uint64(64 - step) == np.uint64(0):
            mantissa <<= np.uint64(step)
            shift += np.uint64(step)
    high, low = _product(mantissa, _UPPER_FIVE[exponent - LOWEST])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(mantissa, _LOWER_FIVE[exponent - LOWEST])
        low += more
        if low < more:
            high += np.uint64(1)
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and exponent < -27:
        return 0.0, False
    top = high >> np.uint64(63)
    drop = top + np.uint64(9)
    bits = high >> drop
    # Exactly in the middle between two doubles: round to the even double.
    if low <= np.uint64(1) and -4 <= exponent <= 23 and bits & np.uint64(3) == np.uint64(1) and bits << drop == high:
        bits &= ~np.uint64(1)
    bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
    # 217706 / 2**16 approximates log2(10) well enough for every exponent of the table.
    power = ((217706 * exponent) >> 16) + 63 + np.int64(top) - np.int64(shift)
    # Add, do not use `or`: if the bits were rounded up to 2**53, the exponent must increase by 1.
    return np.uint64((np.uint64(power + 1022) << np.uint64(52)) + bits).view(np.float64), True


@_inner
def _word(text, at, word):
    """Return the position after `word` if this word is at position `at` of LETOR text, in any case; otherwise -1."""
    for letter in word:
        if text[at] | _LOWER != letter:
            return -1
        at += 1
    return at


@_inner
def _digits(text, at, value):
    """Append the digits at `at` in LETOR text to `value`, modulo 2**64. Return the value and the end of the digits."""
    digit = np.uint64(text[at]) - np.uint64(_ZERO)
    while digit <= np.uint64(9):
        value = value * np.uint64(10) + digit
        at += 1
        digit = np.uint64(text[at]) - np.uint64(_ZERO)
    return value, at


@_inner
def _number(text, at):
    """Read the number at position `at` of LETOR text; return its kind, its value and the position after the number.

    The value of a number that is not finite is NaN or infinity.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    start, fraction, exponent = at, 0, 0
    mantissa, at = _digits(text, at, np.uint64(0))
    digits = at - start
    if text[at] == _POINT:
        point = at + 1
        mantissa, at = _digits(text, point, mantissa)
        fraction = at - point
        digits += fraction
    if digits == 0:
        end = _word(text, start, _INF)
        if end > 0:
            return _NOT_FINITE, np.inf, max(end, _word(text, end, _INITY))
        end = _word(text, start, _NAN)
        return (_NOT_FINITE, np.nan, end) if end > 0 else (_NO_NUMBER, 0.0, at)
    if text[at] | _LOWER == 101:  # e
        at += 1
        negative_power = text[at] == _MINUS
        if negative_power or text[at] == _PLUS:
            at += 1
        first = at
        power, at = _digits(text, at, np.uint64(0))
        if at == first:
            return _NO_NUMBER, 0.0, at
        if at - first > 18:
            return _TOO_LONG, 0.0, at
        exponent = -np.int64(power) if negative_power else np.int64(power)
    exponent -= fraction
    if digits > 19:
        while text[start] == _ZERO or text[start] == _POINT:
            digits -= text[start] == _ZERO
            start += 1
        if digits > 19:
            if digits + exponent > 40:
                return _NOT_FINITE, np.inf, at
            return _TOO_LONG, 0.0, at
    if mantissa == np.uint64(0):
        value = 0.0
    elif mantissa <= np.uint64(1 << 53) and -22 <= exponent <= 22:
        value = np.float64(mantissa)
        value = value * EXACT_POWERS[exponent] if exponent > 0 else value / EXACT_POWERS[-exponent]
    elif exponent > HIGHEST:
        return _NOT_FINITE, np.inf, at
    elif exponent < LOWEST:
        value = 0.0
    else:
        value, sure = _nearest_double(mantissa, exponent)
        if not sure:
            return _TOO_LONG, 0.0, at
    return _NUMBER, -value if negative else value, at


@_inner
def _blank(c):
    """Return True if a byte separates the tokens of a line of LETOR text."""
    return c == _SPACE or (_TAB <= c <= _RETURN and c != _NEWLINE)


@_inner
def _skip(text, at):
    """Return the position after the blanks at `at` in LETOR text; -1 if a carriage return is inside the line."""
    while _blank(text[at]):
        if text[at] == _RETURN and text[at + 1] != _NEWLINE:
            return -1
        at += 1
    return at


@_inner
def _ends_token(c):
    return c in (_SPACE, _HASH) or _TAB <= c <= _RETURN


@_inner
def _character(text, at, stop):
    """Return the UTF-8 character at `at` in LETOR text and the next position; -1 and `at + 1` if this is not UTF-8."""
    first = np.int64(text[at])
    if first < 0x80:
        return first, at + 1
    more = (first >= 0xC2) + (first >= 0xE0) + (first >= 0xF0)
    if more == 0 or first > 0xF4 or at + more >= stop:
        return -1, at + 1
    value = first & (0x3F >> more)
    for i in range(at + 1, at + 1 + more):
        if text[i] & 0xC0 != 0x80:
            return -1, at + 1
        value = value << 6 | (np.int64(text[i]) & 0x3F)
    # Not valid: an encoding longer than needed, half of a surrogate pair, or a number beyond Unicode.
    if (more == 2 and value < 0x800) or 0xD800 <= value <= 0xDFFF or (more == 3 and not 0x10000 <= value <= 0x10FFFF):
        return -1, at + 1
    return value, at + 1 + more


@_inner
def _docid(text, at):
    """Return start and stop of the document id in a LETOR comment, the end of the line, True for a valid comment."""
    at += 1
    start = at
    while _blank(text[start]):
        start += 1
    stop, sound = start, True
    while text[at] != _NEWLINE:
        if text[at] == 0 or (text[at] == _RETURN and text[at + 1] != _NEWLINE):
            sound = False
        at += 1
        if not _blank(text[at - 1]):
            stop = at
    # LETOR 4.0: `docid = GX000-00-0000000 inc = 1 prob = 0.02`.
    named = _word(text, start, _DOCID)
    while named > 0 and _blank(text[named]):
        named += 1
    if named > 0 and text[named] == 61:  # =
        named += 1
        while _blank(text[named]):
            named += 1
        if named < stop:
            start = stop = named
            while text[stop] != _NEWLINE and not _blank(text[stop]):
                stop += 1
    return start, stop, at, sound


@_compiled
def count_lines(text, docids, tally):
    """Count the lines of a block of LETOR text; find the largest feature id and the longest document id.

    Before the call, `tally[WIDEST]` is the limit on feature ids. After the call, it is the largest id up to this limit.
    Feature ids increase within a line, so only the last id of a line is read. `parse_lines` checks this order.
    """
    limit, at = tally[WIDEST], 0
    tally[:] = 0
    while at < text.size:
        tally[LINES] += 1
        while _blank(text[at]):
            at += 1
        if text[at] == _NEWLINE:
            tally[BLANK] += 1
        elif text[at] == _HASH:
            tally[COMMENTS] += 1
            while text[at] != _NEWLINE:
                at += 1
        else:
            tally[DOCUMENTS] += 1
            colon = 0
            while text[at] != _NEWLINE and text[at] != _HASH:
                if text[at] == _COLON:
                    colon = at
                at += 1
            feature, scale, back = 0, 1, colon - 1
            while back >= 0 and _ZERO <= text[back] < _COLON and scale <= 1 << 40:
                feature += (np.int64(text[back]) - _ZERO) * scale
                scale *= 10
                back -= 1
            if back >= 0 and _blank(text[back]) and tally[WIDEST] < feature <= limit:
                tally[WIDEST] = feature
            if text[at] == _HASH:
                start, stop, at, _ = _docid(text, at)
                tally[COMMENTED] += 1
                characters = 0
                while docids and start < stop and characters < LONGEST_ID:
                    _, start = _character(text, start, stop)
                    characters += 1
                tally[DOCID_WIDTH] = max(tally[DOCID_WIDTH], characters)
        at += 1


@_inner
def _qid_kind(text, start, stop):
    """Return 0 for a LETOR query id that is an integer (`12`), 1 for other text (`012`), -1 for an invalid id."""
    if not 0 < stop - start <= LONGEST_ID:
        return -1
    first = start + (text[start] == _MINUS)
    whole = first < stop <= first + 18 and (text[first] != _ZERO or (stop - first == 1 and first == start))
    at = start
    while at < stop:
        character, following = _character(text, at, stop)
        if character <= _SPACE or character == 0x7F:
            return -1
        if at >= first and not _ZERO <= character < _COLON:
            whole = False
        at = following
    return 0 if whole else 1


@_compiled
def parse_lines(text, state, features, labels, docids, fill, strict, starts, slow, infinite):
    """Parse the lines of LETOR text from position `state[AT]`; return `DONE`, `FULL`, `NO_ROW` or `BAD`.

    `starts` gets one row per list: first row of the list, its line, start and stop of the query id in the text. `slow`
    gets one row per number that Python converts: row, column (-1 for the label), start and stop in the text, line,
    start of the line. `FULL` is returned if `slow` may be too small for the numbers of the next line. `infinite` counts
    the values of each feature that are infinite or too large for float32.
    """
    qid, qid_stop = 0, -1
    if state[LISTS] > 0:
        qid, qid_stop = starts[state[LISTS] - 1, 2], starts[state[LISTS] - 1, 3]
    largest, width = np.finfo(np.float32).max, features.shape[1]
    while state[AT] < text.size:
        at, row, waiting, missing = state[AT], state[ROW], state[SLOW], 0
        if waiting + width + 1 > slow.shape[0]:
            return FULL
        at = _skip(text, at)
        if at < 0:
            return BAD
        if text[at] == _NEWLINE or text[at] == _HASH:
            if text[at] == _HASH:
                _, _, at, sound = _docid(text, at)
                if not sound:
                    return BAD
            state[AT] = at + 1
            state[LINE] += 1
            continue

        if row == labels.size:
            return NO_ROW
        start = at
        kind, value, at = _number(text, at)
        number = np.float32(value) + np.float32(0)  # -0.0 becomes 0.0, like a value that a sparse file omits
        if not _blank(text[at]) or kind in (_NO_NUMBER, _NOT_FINITE) or not 0 <= number <= largest:
            return BAD
        if kind == _TOO_LONG:
            slow[waiting] = (row, -1, start, at, state[LINE], state[AT])
            waiting += 1
        labels[row] = number

        at = _skip(text, at)
        if at < 0 or text[at] != 113 or text[at + 1] != 105 or text[at + 2] != 100 or text[at + 3] != _COLON:  # qid:
            return BAD
        at += 4
        start = at
        while not _ends_token(text[at]):
            at += 1
        same, i = at - start == qid_stop - qid, 0
        while same and i < at - start:
            same = text[start + i] == text[qid + i]
            i += 1
        if not same:
            text_id = _qid_kind(text, start, at)
            if text_id < 0:
                return BAD
            qid, qid_stop = start, at

        last, pairs = 0, 0
        while True:
            at = _skip(text, at)
            if at < 0:
                return BAD
            if text[at] == _NEWLINE or text[at] == _HASH:
                break
            start = at
            digits, at = _digits(text, at, np.uint64(0))
            feature = np.int64(digits)
            # The length is checked because a longer id could overflow to a valid id.
            if text[at] != _COLON or not last < feature <= width or at - start > 18:
                return BAD
            start = at + 1
            kind, value, at = _number(text, start)
            if not _ends_token(text[at]) or kind == _NO_NUMBER:
                return BAD
            number = np.float32(value) + np.float32(0)
            if kind == _TOO_LONG:
                slow[waiting] = (row, feature - 1, start, at, state[LINE], state[AT])
                waiting += 1
            elif kind == _NOT_FINITE or not abs(number) <= largest:
                if strict:
                    return BAD
                if not np.isnan(number):
                    infinite[feature - 1] += 1
                    state[INFINITE] += 1
                number = fill
                missing += 1
            features[row, feature - 1] = number
            last = feature
            pairs += 1

        if text[at] == _HASH:
            start, stop, at, sound = _docid(text, at)
            if not sound:
                return BAD
            place, replaced = 0, False
            while docids.shape[1] > 0 and start < stop:
                if place == docids.shape[1]:
                    return BAD
                character, start = _character(text, start, stop)
                replaced |= character < 0
                docids[row, place] = character if character >= 0 else 0xFFFD
                place += 1
            state[REPLACED] += replaced

        if not same:
            starts[state[LISTS]] = (row, state[LINE], qid, qid_stop)
            state[LISTS] += 1
            state[TEXT_IDS] += text_id
        dense = pairs if pairs == last else 0
        state[FEWEST], state[MOST] = min(state[FEWEST], dense), max(state[MOST], last)
        state[BARE] += pairs == 0
        state[AT], state[ROW], state[SLOW] = at + 1, row + 1, waiting
        state[LINE] += 1
        state[MISSING] += missing
    return DONE
