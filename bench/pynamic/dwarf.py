"""Debug information of a library, DWARF version 4: a unit, its functions, their parameters and variables, and lines.

Each function has the same shape, so that all offsets are a product of its number. Source: DWARF 4, sections 6.2 and 7.
"""

import struct
from dataclasses import dataclass

from machine import FUNCTION_BYTES

PARAMETERS, VARIABLES = 4, 12

_LOCALS = PARAMETERS + VARIABLES
_LINES = 40  # of source, a function
_FIRST_LINE = 20
_LINE_BASE, _LINE_RANGE, _OPCODE_BASE = -5, 14, 13

# tag, children, (attribute, form)...; section 7.5.
_ABBREVIATIONS = (
    (0x11, 1, (0x25, 0x0E), (0x13, 0x0B), (0x03, 0x0E), (0x1B, 0x0E), (0x11, 0x01), (0x12, 0x07), (0x10, 0x17)),
    (0x24, 0, (0x0B, 0x0B), (0x3E, 0x0B), (0x03, 0x0E)),
    (0x2E, 1, (0x3F, 0x19), (0x03, 0x0E), (0x3A, 0x0B), (0x3B, 0x06), (0x27, 0x19), (0x49, 0x13), (0x11, 0x01),
     (0x12, 0x06), (0x40, 0x18)),
    (0x05, 0, (0x03, 0x0E), (0x3A, 0x0B), (0x3B, 0x06), (0x49, 0x13), (0x02, 0x18)),
    (0x34, 0, (0x03, 0x0E), (0x3A, 0x0B), (0x3B, 0x06), (0x49, 0x13), (0x02, 0x18)),
)  # fmt: skip

_UNIT = struct.Struct("<IHIB BIBIIQQI BBBI")
_FUNCTION = struct.Struct("<BIBIIQIBB" + "BIBIIBB2s" * _LOCALS + "B")


@dataclass(frozen=True)
class Debug:
    """Content of the sections by name."""

    sections: dict[str, bytes]


def describe(library: str, names: list[str], text: int, end: int) -> Debug:
    """Debug information for functions of FUNCTION_BYTES that begin at `text`, in the order of their names."""
    strings = bytearray()

    def string(value: str) -> int:
        strings.extend(value.encode() + b"\0")
        return len(strings) - len(value) - 1

    producer, source, place = string("generated for quell's bench"), string(f"{library}.c"), string("/usr/src/application")
    word = string("int")
    unit_bytes = _UNIT.size - 4
    base_type = _UNIT.size - 7
    first_name = len(strings)
    blocks = [_strings_of(library, number, name) for number, name in enumerate(names)]
    stride = len(blocks[0]) if blocks else 0
    functions = b"".join(
        _function(number, first_name + stride * number, len(names[0]) + 1, text, base_type, library)
        for number in range(len(names))
    )
    unit = _UNIT.pack(
        unit_bytes + len(functions) + 1, 4, 0, 8,
        1, producer, 0x0C, source, place, text, end - text, 0,
        2, 4, 5, word,
    )  # fmt: skip
    return Debug(
        {
            ".debug_abbrev": _abbreviations(),
            ".debug_info": unit + functions + b"\0",
            ".debug_line": _lines(library, len(names), text),
            ".debug_str": bytes(strings) + b"".join(blocks),
        }
    )


def _local(library: str, number: int, index: int) -> str:
    return f"{library}_{number:05d}_local_{index:02d}"


def _strings_of(library: str, number: int, name: str) -> bytes:
    names = [name, *(_local(library, number, index) for index in range(_LOCALS))]
    return "\0".join(names).encode() + b"\0"


def _function(number: int, name: int, name_bytes: int, text: int, word: int, library: str) -> bytes:
    line = _FIRST_LINE + _LINES * number
    local_bytes = len(_local(library, 0, 0)) + 1
    fields: list[int | bytes] = [3, name, 1, line, word, text + FUNCTION_BYTES * number, FUNCTION_BYTES, 1, 0x56]
    for index in range(_LOCALS):
        abbreviation = 4 if index < PARAMETERS else 5
        place = -(index + 1) * 8 - 16
        # DW_OP_fbreg and a signed LEB128 of two bytes.
        fields += [abbreviation, name + name_bytes + local_bytes * index, 1, line + index + 1, word, 3, 0x91]
        fields.append(bytes([(place & 0x7F) | 0x80, (place >> 7) & 0x7F]))
    return _FUNCTION.pack(*fields, 0)


def _abbreviations() -> bytes:
    out = bytearray()
    for number, (tag, children, *attributes) in enumerate(_ABBREVIATIONS, 1):
        out += bytes([number, tag, children])
        for attribute, form in attributes:
            out += bytes([attribute, form])
        out += b"\0\0"
    return bytes(out) + b"\0"


def _lines(library: str, functions: int, text: int) -> bytes:
    """One sequence: a row every ten bytes of code, and the lines between functions skipped."""

    def special(line: int, address: int) -> int:
        return line - _LINE_BASE + _LINE_RANGE * address + _OPCODE_BASE

    rows = FUNCTION_BYTES // 10 - 1
    skip = _LINES - rows
    rest = FUNCTION_BYTES - 10 * rows
    one = bytes([special(1, 10)] * rows) + b"\x02" + _uleb(rest) + b"\x03" + _sleb(skip) + b"\x01"
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    files = b"\0" + f"{library}.c".encode() + b"\0" + bytes([0, 0, 0]) + b"\0"
    header = struct.pack("<BBBbBB", 1, 1, 1, _LINE_BASE, _LINE_RANGE, _OPCODE_BASE) + lengths + files
    start = b"\x00\x09\x02" + struct.pack("<Q", text) + b"\x03" + _sleb(_FIRST_LINE - 1) + b"\x01"
    program = start + one * functions + b"\x00\x01\x01"
    body = struct.pack("<HI", 4, len(header)) + header + program
    return struct.pack("<I", len(body)) + body


def _uleb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _sleb(value: int) -> bytes:
    out = bytearray()
    while not -64 <= value < 64:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])
