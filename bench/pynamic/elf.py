"""Shared objects written without compiler and linker, with just the parts that `ld.so`, gdb and `readelf` expect.

    readable    ELF header, program headers, build id, hash, dynamic symbols and strings, relocations
    executable  linkage table, code
    readable    constants, unwind table
    writable    dynamic section, global offset table, data; then zeros
    not loaded  debug information, symbols and strings for debuggers, section headers

Every loaded part begins on a page of its own and at an address equal to its place in the file. Source: System V ABI,
chapters 4 and 5, with its supplement for AMD64; the GNU hash table as glibc's `elf/dl-lookup.c` reads it.
"""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

import dwarf
import machine

PAGE = 4096
_HEADER_BYTES, _SEGMENT_BYTES, _SECTION_BYTES, _SYMBOL_BYTES, _RELOCATION_BYTES = 64, 56, 64, 24, 24
_SEGMENTS = 8
_JUMP_SLOT, _RELATIVE = 7, 8
_READ, _WRITE, _EXECUTE = 4, 2, 1
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


@dataclass
class Library:
    """The content of one shared object: functions by name, the other libraries' functions that it calls, and its way in."""

    name: str
    functions: list[str]
    needed: list[str]
    # Called at the end of each chain, in turn.
    leaves: list[str]
    # Entries of libraries that this one's entry visits too.
    visits: list[str]
    # A Python extension module rather than a plain library.
    is_module: bool

    @property
    def file_name(self) -> str:
        """The name of the file, and the soname."""
        return f"{self.name}.so"

    @property
    def entry(self) -> str:
        """The function that calls all others."""
        return f"{self.name}_entry"


@dataclass
class _Section:
    name: str
    kind: int
    flags: int
    content: bytes
    align: int = 8
    link: str = ""
    info: int = 0
    entry_bytes: int = 0
    address: int = 0
    offset: int = 0


@dataclass
class _Layout:
    """Places, known before any content is made."""

    hash: int = 0
    symbols: int = 0
    strings: int = 0
    relative: int = 0
    jump: int = 0
    plt: int = 0
    text: int = 0
    tail: int = 0
    constants: int = 0
    unwind_index: int = 0
    unwind: int = 0
    dynamic: int = 0
    got: int = 0
    data: int = 0
    flags: int = 0
    sizes: dict[str, int] = field(default_factory=dict)


def write(library: Library) -> bytes:
    """The file's content; the same for the same library."""
    return _Writer(library).write()


def _up(value: int, align: int) -> int:
    return -(-value // align) * align


class _Writer:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.count = len(library.functions)
        self.init = f"PyInit_{library.name}"
        python = ["PyModule_Create2", "PyLong_FromLong"] if library.is_module else []
        self.undefined = list(dict.fromkeys([*library.leaves, *library.visits, *python]))
        own = [*library.functions, library.entry, *([self.init] if library.is_module else [])]
        # Slots of the linkage table: every function, the entry, and what other libraries define.
        self.slots = {name: slot for slot, name in enumerate([*own[: self.count + 1], *self.undefined])}
        self.hash, order = _hash_table(own, first=1 + len(self.undefined))
        self.defined = [own[index] for index in order]
        self.strings = _Strings([*own, *self.undefined, *library.needed, library.file_name, "$ORIGIN/../lib"])
        self.constants = library.name.encode() + b"\0entry\0"
        self.place = self._layout()
        self._tail()

    def _layout(self) -> _Layout:
        """Places of all that is loaded."""
        place, library = _Layout(), self.library
        sizes = place.sizes
        sizes["symbols"] = _SYMBOL_BYTES * (1 + len(self.undefined) + len(self.defined))
        sizes["relative"] = _RELOCATION_BYTES * (4 if library.is_module else 0)
        sizes["jump"] = _RELOCATION_BYTES * len(self.slots)
        note = _HEADER_BYTES + _SEGMENT_BYTES * _SEGMENTS
        place.hash = _up(note + 36, 8)
        place.symbols = place.hash + _up(len(self.hash), 8)
        place.strings = place.symbols + sizes["symbols"]
        place.relative = _up(place.strings + len(self.strings.content), 8)
        place.jump = place.relative + sizes["relative"]
        place.plt = _up(place.jump + sizes["jump"], PAGE)
        place.text = place.plt + machine.SLOT_BYTES * (1 + len(self.slots))
        place.tail = place.text + machine.FUNCTION_BYTES * self.count
        # The tail's length does not depend on addresses: 8 bytes a chain, and some hundred more.
        chains = -(-self.count // machine.CHAIN)
        end = place.tail + 7 * (chains + len(library.visits)) + 256
        place.constants = _up(end, PAGE)
        place.unwind_index = _up(place.constants + len(self.constants), 8)
        place.unwind = place.unwind_index + 12 + 8 * self.count
        place.dynamic = _up(place.unwind + 24 + 24 * self.count + 4, PAGE)
        sizes["dynamic"] = 16 * (len(library.needed) + 14)
        place.got = place.dynamic + sizes["dynamic"]
        place.data = place.got + 8 * (3 + len(self.slots))
        sizes["data"] = 168 if library.is_module else 64
        place.flags = _up(place.data + sizes["data"], 64)
        return place

    def slot(self, name: str) -> int:
        """The address of a name's slot in the linkage table."""
        return self.place.plt + machine.SLOT_BYTES * (1 + self.slots[name])

    def _tail(self) -> None:
        """Entry and Python's ways in, behind the functions; their addresses."""
        library, place = self.library, self.place
        chains = [self.slot(name) for name in library.functions[:: machine.CHAIN]]
        visits = [self.slot(name) for name in library.visits]
        code = machine.entry(place.tail, chains, visits, place.flags, self.count)
        self.address = {name: place.text + machine.FUNCTION_BYTES * i for i, name in enumerate(library.functions)}
        self.address[library.entry] = place.tail
        self.extent = {library.entry: len(code)}
        if library.is_module:
            self.method = place.tail + len(code)
            code += machine.python_method(self.method, self.slot(library.entry), self.slot("PyLong_FromLong"))
            self.address[self.init] = place.tail + len(code)
            code += machine.python_init(place.tail + len(code), place.data, self.slot("PyModule_Create2"))
            self.extent[self.init] = place.tail + len(code) - self.address[self.init]
        self.tail = code
        assert place.tail + len(code) <= place.constants

    def write(self) -> bytes:
        """Content of every section, then headers."""
        library, place = self.library, self.place
        text = self._text()
        loaded = [
            _Section(".note.gnu.build-id", 7, 2, b"", 4, address=_HEADER_BYTES + _SEGMENT_BYTES * _SEGMENTS),
            _Section(".gnu.hash", 0x6FFFFFF6, 2, self.hash, link=".dynsym", address=place.hash),
            _Section(".dynsym", 11, 2, self._symbols(), link=".dynstr", info=1, entry_bytes=24, address=place.symbols),
            _Section(".dynstr", 3, 2, self.strings.content, 1, address=place.strings),
            _Section(".rela.dyn", 4, 2, self._relative(), link=".dynsym", entry_bytes=24, address=place.relative),
            _Section(".rela.plt", 4, 0x42, self._jumps(), link=".dynsym", info=12, entry_bytes=24, address=place.jump),
            _Section(".plt", 1, 6, text[0], 16, entry_bytes=16, address=place.plt),
            _Section(".text", 1, 6, text[1], 16, address=place.text),
            _Section(".rodata", 1, 2, self.constants, 8, address=place.constants),
            _Section(".eh_frame_hdr", 1, 2, self._unwind_index(), 4, address=place.unwind_index),
            _Section(".eh_frame", 1, 2, self._unwind(), 4, address=place.unwind),
            _Section(".dynamic", 6, 3, self._dynamic(), link=".dynstr", entry_bytes=16, address=place.dynamic),
            _Section(".got.plt", 1, 3, self._offsets(), entry_bytes=8, address=place.got),
            _Section(".data", 1, 3, self._data(), 8, address=place.data),
            _Section(".bss", 8, 3, b"\0" * self.count, 64, address=place.flags),
        ]
        debug = dwarf.describe(library.name, library.functions, place.text, place.tail).sections
        strings = _Strings([f"{library.name}.c", *library.functions, *self.extent])
        unloaded = [
            *(_Section(name, 1, 0x30 if name == ".debug_str" else 0, content, 1) for name, content in debug.items()),
            _Section(".symtab", 2, 0, self._debugger_symbols(strings), link=".strtab", info=2, entry_bytes=24),
            _Section(".strtab", 3, 0, strings.content, 1),
        ]
        return self._file(loaded, unloaded)

    def _text(self) -> tuple[bytes, bytes]:
        library, place = self.library, self.place
        bodies = machine.arithmetic(library.name)
        functions = []
        for number in range(self.count):
            last = number % machine.CHAIN == machine.CHAIN - 1 or number == self.count - 1
            callee = self._leaf(number) if last else self.slot(library.functions[number + 1])
            address = place.text + machine.FUNCTION_BYTES * number
            functions.append(machine.function(address, place.flags + number, callee, bodies[number % len(bodies)]))
        table = machine.linkage_table(place.plt, place.got, len(self.slots))
        return table, b"".join(functions) + self.tail

    def _leaf(self, number: int) -> int | None:
        leaves = self.library.leaves
        return self.slot(leaves[number // machine.CHAIN % len(leaves)]) if leaves else None

    def _symbols(self) -> bytes:
        out = [bytes(_SYMBOL_BYTES)]
        out += [_SYMBOL.pack(self.strings.at(name), 0x12, 0, 0, 0, 0) for name in self.undefined]
        return b"".join([*out, *(self._defined(name, self.strings) for name in self.defined)])

    def _debugger_symbols(self, strings: "_Strings") -> bytes:
        unit = _SYMBOL.pack(strings.at(f"{self.library.name}.c"), 4, 0, 0xFFF1, 0, 0)
        names = [*self.library.functions, *self.extent]
        return b"".join([bytes(_SYMBOL_BYTES), unit, *(self._defined(name, strings) for name in names)])

    def _defined(self, name: str, strings: "_Strings") -> bytes:
        extent = self.extent.get(name, machine.FUNCTION_BYTES)
        return _SYMBOL.pack(strings.at(name), 0x12, 0, _TEXT_SECTION, self.address[name], extent)

    def _relative(self) -> bytes:
        if not self.library.is_module:
            return b""
        data = self.place.data
        name = self.place.constants
        fields = [(40, name), (64, data + 104), (104, name + len(self.library.name) + 1), (112, self.method)]
        return b"".join(_RELOCATION.pack(data + at, _RELATIVE, value) for at, value in fields)

    def _jumps(self) -> bytes:
        index = {name: number for number, name in enumerate([*self.undefined, *self.defined], 1)}
        got = self.place.got + 24
        return b"".join(
            _RELOCATION.pack(got + 8 * slot, index[name] << 32 | _JUMP_SLOT, 0) for name, slot in self.slots.items()
        )

    def _offsets(self) -> bytes:
        """Each word points behind its slot's jump until it is bound."""
        first = self.place.plt + machine.SLOT_BYTES + 6
        words = (first + machine.SLOT_BYTES * slot for slot in range(len(self.slots)))
        return struct.pack(f"<{3 + len(self.slots)}Q", self.place.dynamic, 0, 0, *words)

    def _data(self) -> bytes:
        """PyModuleDef and its methods; what the relocations fill in is zero here. Source: moduleobject.h."""
        if not self.library.is_module:
            return hashlib.sha512(self.library.name.encode()).digest()
        definition = struct.pack("<13q", 1, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0)
        method = struct.pack("<QQQQ", 0, 0, 4, 0)  # METH_NOARGS
        return definition + method + bytes(32)

    def _unwind(self) -> bytes:
        """One common entry, one entry a function."""
        common = struct.pack("<IIB3sBBBBB", 20, 0, 1, b"zR\0", 1, 0x78, 16, 1, 0x1B) + bytes([12, 7, 8, 0x90, 1, 0, 0])
        entry = struct.Struct("<IIiIB7s")
        # push rbp; mov rbp, rsp: the frame's address is rsp + 16, then rbp + 16.
        moves = bytes([0x41, 0x0E, 16, 0x86, 2, 0, 0])
        place = self.place
        entries = (
            entry.pack(
                20, 24 + 24 * number + 4,
                place.text + machine.FUNCTION_BYTES * number - (place.unwind + 24 + 24 * number + 8),
                machine.FUNCTION_BYTES, 0, moves,
            )
            for number in range(self.count)
        )  # fmt: skip
        return common + b"".join(entries) + bytes(4)

    def _unwind_index(self) -> bytes:
        place = self.place
        index = place.unwind_index
        head = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, place.unwind - (index + 4), self.count)
        rows = (
            (place.text + machine.FUNCTION_BYTES * number - index, place.unwind + 24 + 24 * number - index)
            for number in range(self.count)
        )
        return head + b"".join(struct.pack("<ii", *row) for row in rows)

    def _dynamic(self) -> bytes:
        place, strings = self.place, self.strings
        rows = [(1, strings.at(name)) for name in self.library.needed]
        rows += [
            (14, strings.at(self.library.file_name)), (29, strings.at("$ORIGIN/../lib")),
            (0x6FFFFEF5, place.hash), (5, place.strings), (6, place.symbols), (10, len(strings.content)), (11, 24),
            (3, place.got), (2, place.sizes["jump"]), (20, 7), (23, place.jump),
        ]  # fmt: skip
        if place.sizes["relative"]:
            rows += [(7, place.relative), (8, place.sizes["relative"]), (9, 24)]
        return b"".join(struct.pack("<QQ", *row) for row in rows).ljust(place.sizes["dynamic"], b"\0")

    def _file(self, loaded: list[_Section], unloaded: list[_Section]) -> bytes:
        place = self.place
        digest = hashlib.sha1(self.library.name.encode() + loaded[7].content).digest()
        loaded[0].content = struct.pack("<III4s", 4, 20, 3, b"GNU\0") + digest
        out = bytearray(_HEADER_BYTES + _SEGMENT_BYTES * _SEGMENTS)
        for section in loaded:
            section.offset = section.address
            if section.kind != 8:
                _pad(out, section.address)
                out += section.content
        for section in unloaded:
            _pad(out, _up(len(out), section.align))
            section.offset = len(out)
            out += section.content
        names = _Strings([section.name for section in [*loaded, *unloaded]] + [".shstrtab"])
        sections = [*loaded, *unloaded, _Section(".shstrtab", 3, 0, names.content, 1, offset=len(out))]
        out += names.content
        _pad(out, _up(len(out), 8))
        table = len(out)
        out += _section_headers(sections, names)
        out[:_HEADER_BYTES] = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, 62, 1, 0, _HEADER_BYTES, table, 0, _HEADER_BYTES, _SEGMENT_BYTES,
            _SEGMENTS, _SECTION_BYTES, len(sections) + 1, len(sections),
        )  # fmt: skip
        out[_HEADER_BYTES : _HEADER_BYTES + _SEGMENT_BYTES * _SEGMENTS] = self._segments(loaded)
        return bytes(out)

    def _segments(self, loaded: list[_Section]) -> bytes:
        place = self.place
        end = {section.name: section.address + len(section.content) for section in loaded}
        note, bss = loaded[0].address, place.flags + self.count
        load, dynamic, notes, unwind, stack = 1, 2, 4, 0x6474E550, 0x6474E551
        rows = [
            (load, _READ, 0, end[".rela.plt"], None, PAGE),
            (load, _READ | _EXECUTE, place.plt, end[".text"], None, PAGE),
            (load, _READ, place.constants, end[".eh_frame"], None, PAGE),
            (load, _READ | _WRITE, place.dynamic, end[".data"], bss, PAGE),
            (dynamic, _READ | _WRITE, place.dynamic, end[".dynamic"], None, 8),
            (notes, _READ, note, end[".note.gnu.build-id"], None, 4),
            (unwind, _READ, place.unwind_index, end[".eh_frame_hdr"], None, 4),
            (stack, _READ | _WRITE, 0, 0, None, 16),
        ]
        return b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, start, start, start, stop - start, (more or stop) - start, align)
            for kind, flags, start, stop, more, align in rows
        )


# Number of `.text` among the sections, counted from 1.
_TEXT_SECTION = 8


class _Strings:
    """A string table, and where each string begins."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._places: dict[str, int] = {}
        content = [b""]
        length = 1
        for string in strings:
            if string not in self._places:
                self._places[string] = length
                content.append(string.encode())
                length += len(content[-1]) + 1
        self.content = b"\0".join(content) + b"\0"

    def at(self, string: str) -> int:
        """The offset of a string that was given."""
        return self._places[string]


def _hash_table(names: list[str], first: int) -> tuple[bytes, list[int]]:
    """The GNU hash table for symbols that begin at index `first`, and the order that it asks for."""
    hashes = _hashes(names)
    buckets = max(1, len(names) // 4)
    order = sorted(range(len(names)), key=lambda index: (hashes[index] % buckets, index))
    words = 1 << max(0, (len(names) // 6).bit_length() - 1)
    shift = words.bit_length() + 5
    bloom = [0] * words
    starts = [0] * buckets
    chain = []
    for place, index in enumerate(order):
        value = hashes[index]
        bloom[value // 64 % words] |= 1 << value % 64 | 1 << (value >> shift) % 64
        bucket = value % buckets
        starts[bucket] = starts[bucket] or first + place
        last = place + 1 == len(order) or hashes[order[place + 1]] % buckets != bucket
        chain.append(value & ~1 | last)
    head = struct.pack("<IIII", buckets, first, words, shift)
    table = struct.pack(f"<{words}Q{buckets}I{len(chain)}I", *bloom, *starts, *chain)
    return head + table, order


def _hashes(names: list[str]) -> list[int]:
    """Bernstein's hash of each name; equal ends of names are hashed once."""
    ends: dict[str, tuple[int, int]] = {}
    hashes = []
    for name in names:
        head, end = name[:24], name[24:]
        if end not in ends:
            ends[end] = (_bernstein(end, 0), pow(33, len(end), 1 << 32))
        value, factor = ends[end]
        hashes.append((_bernstein(head, 5381) * factor + value) & 0xFFFFFFFF)
    return hashes


def _bernstein(text: str, start: int) -> int:
    value = start
    for byte in text.encode():
        value = value * 33 + byte
    return value & 0xFFFFFFFF


def _pad(out: bytearray, length: int) -> None:
    assert length >= len(out)
    out += bytes(length - len(out))


def _section_headers(sections: list[_Section], names: _Strings) -> bytes:
    numbers = {section.name: number for number, section in enumerate(sections, 1)}
    out = [bytes(_SECTION_BYTES)]
    for section in sections:
        entry_bytes = section.entry_bytes or (1 if section.flags & 0x20 else 0)
        info = numbers[".got.plt"] if section.name == ".rela.plt" else section.info
        link = numbers[section.link] if section.link else 0
        out.append(
            struct.pack(
                "<IIQQQQIIQQ", names.at(section.name), section.kind, section.flags, section.address, section.offset,
                len(section.content), link, info, section.align, entry_bytes,
            )
        )  # fmt: skip
    return b"".join(out)
