"""x86-64 instructions of a library: its functions, its entry, the procedure linkage table, and Python's two ways in.

Every function sets a flag of its own, computes a little, and calls the next through the linkage table, in chains of ten;
the last of a chain calls into another library. The entry starts every chain, then counts the flags: so it returns how
many functions were really visited. Source: System V ABI for AMD64, version 1.0, section 5.2 (linkage table).
"""

import hashlib
import struct

FUNCTION_BYTES = 256
SLOT_BYTES = 16
CHAIN = 10

_STEPS = 21
_STEP = struct.Struct("<2sIcI")  # imul eax, eax, imm32; xor eax, imm32
_HEAD = bytes.fromhex("5548 89e5")  # push rbp; mov rbp, rsp
_TAIL = bytes.fromhex("5dc3")  # pop rbp; ret
_NO_CALL = bytes.fromhex("0f1f440000")
_PAD = bytes.fromhex("0f1f00")


class Assembler:
    """Machine code at a known address."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.code = bytearray()

    def raw(self, text: str) -> None:
        """Instructions in hexadecimal."""
        self.code += bytes.fromhex(text)

    def relative(self, opcode: str, target: int, after: bytes = b"") -> None:
        """An instruction that ends in the distance to `target`, then in an immediate operand."""
        self.raw(opcode)
        here = self.address + len(self.code) + 4 + len(after)
        self.code += struct.pack("<i", target - here) + after

    def call(self, target: int) -> None:
        """A near call."""
        self.relative("e8", target)

    def align(self) -> int:
        """Fills up with interrupts to 16 bytes, as linkers do; returns the address."""
        self.code += b"\xcc" * (-len(self.code) % 16)
        return self.address + len(self.code)


def function(address: int, flag: int, callee: int | None, constants: bytes) -> bytes:
    """One function of FUNCTION_BYTES that sets the byte at `flag` and calls `callee`."""
    assembler = Assembler(address)
    assembler.code += _HEAD
    assembler.relative("c605", flag, after=b"\x01")  # mov byte [flag], 1
    assembler.raw("89f8")  # mov eax, edi
    assembler.code += constants
    assembler.raw("89c7")  # mov edi, eax
    if callee is None:
        assembler.code += _NO_CALL
    else:
        assembler.call(callee)
    assembler.code += _TAIL + _PAD
    return bytes(assembler.code)


def arithmetic(name: str) -> list[bytes]:
    """Bodies for the functions of a library; which constants, follows from the name alone."""
    bodies = []
    for number in range(64):
        digest = hashlib.shake_256(f"{name} {number}".encode()).digest(4 * _STEPS)
        pairs = struct.iter_unpack("<HH", digest)
        bodies.append(b"".join(_STEP.pack(b"\x69\xc0", one | 1, b"\x35", two) for one, two in pairs))
    return bodies


def linkage_table(address: int, got: int, slots: int) -> bytes:
    """The table's head and its slots; slot `i` jumps through word `3 + i` of the global offset table."""
    head = Assembler(address)
    head.relative("ff35", got + 8)
    head.relative("ff25", got + 16)
    head.raw("0f1f4000")
    slot = struct.Struct("<HiBIBi")
    entries = (
        slot.pack(
            0x25FF, got + 24 + 8 * number - (address + SLOT_BYTES * (number + 1) + 6),
            0x68, number,
            0xE9, -SLOT_BYTES * (number + 2),
        )
        for number in range(slots)
    )  # fmt: skip
    return bytes(head.code) + b"".join(entries)


def entry(address: int, chains: list[int], further: list[int], flags: int, count: int) -> bytes:
    """Starts every chain, adds what the further entries return, and counts the library's own flags."""
    assembler = Assembler(address)
    assembler.raw("53")  # push rbx
    for target in chains:
        assembler.raw("31ff")  # xor edi, edi
        assembler.call(target)
    assembler.raw("31db")  # xor ebx, ebx
    for target in further:
        assembler.call(target)
        assembler.raw("01c3")  # add ebx, eax
    assembler.relative("488d15", flags)  # lea rdx, [flags]
    assembler.raw(f"b9{struct.pack('<I', count).hex()}")  # mov ecx, count
    assembler.raw("0fb602 01c3 48ffc2 ffc9 75f4")  # movzx eax, [rdx]; add ebx, eax; inc rdx; dec ecx; jnz
    assembler.raw("89d8 5bc3")  # mov eax, ebx; pop rbx; ret
    assembler.align()
    return bytes(assembler.code)


def python_method(address: int, entry_slot: int, from_long_slot: int) -> bytes:
    """The method that Python calls: the entry's result as an object."""
    assembler = Assembler(address)
    assembler.raw("4883ec08")  # sub rsp, 8
    assembler.call(entry_slot)
    assembler.raw("4863f8")  # movsxd rdi, eax
    assembler.call(from_long_slot)
    assembler.raw("4883c408 c3")  # add rsp, 8; ret
    assembler.align()
    return bytes(assembler.code)


def python_init(address: int, definition: int, create_slot: int) -> bytes:
    """The initialisation that `import` calls; 1013 is PYTHON_API_VERSION, modsupport.h."""
    assembler = Assembler(address)
    assembler.relative("488d3d", definition)  # lea rdi, [definition]
    assembler.raw("bef5030000")  # mov esi, 1013
    assembler.relative("e9", create_slot)
    assembler.align()
    return bytes(assembler.code)
