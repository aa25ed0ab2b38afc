"""Delta debugging: operations are dropped while a program still differs in the same way."""

import time

from programs import Op


def minimise(ops, differs, kind, seconds):
    """A part of `ops` that differs, of which no operation can be dropped, or what is left after `seconds`.

    `differs` plays a program and gives its difference or `None`.
    """
    until = time.monotonic() + seconds
    best, size = list(ops), max(1, len(ops) // 2)

    def still(candidate):
        difference = differs(candidate)
        if difference is not None and difference.kind() == kind:
            # What comes after the difference was not played.
            return candidate[: difference.number]
        return None

    while time.monotonic() < until:
        at, dropped = 0, False
        while at < len(best) and time.monotonic() < until:
            candidate = best[:at] + best[at + size :]
            found = still(candidate) if candidate else None
            if found is not None:
                best, dropped = found, True
            else:
                at += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return best


def with_checks(ops):
    """The program with a look at the whole tree at its end."""
    return [*ops, Op("-", "check", ("outside",)), Op("-", "check", ("inside", "1"))]
