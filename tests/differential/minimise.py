"""Delta debugging: operations are dropped while a program still differs in the same way."""

import time

from programs import Op


def minimise(ops, differs, kind, seconds):
    """A part of `ops` that differs, of which no operation can be dropped, or what is left after `seconds`.

    `differs` plays a program and gives its difference or `None`.
    """
    until = time.monotonic() + seconds
    ops = shortened(ops, differs, kind)
    best, size = list(ops), max(1, len(ops) // 2)

    def still(candidate):
        difference = differs(candidate)
        if difference is not None and difference.kind() == kind:
            # Operations after the difference were not played.
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


def shortened(ops, differs, kind):
    """The program up to the first operation after which trees differ, where a look at them told that they do."""
    if kind[0] not in ("check", "not seen"):
        return ops
    check = ops[-1] if kind[0] == "check" else Op("-", "check", ("inside", kind[1]))
    difference = differs([op for one in ops[:-1] for op in (one, check)])
    if difference is None or difference.kind() != kind:
        return ops
    return [*ops[: (difference.number + 1) // 2], check]
