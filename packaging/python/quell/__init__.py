"""Recordings of quell as frames, and the answers of its commands as objects.

    import quell

    trace = quell.open("app.qtrace")
    trace.events                            # a lazy frame of polars, or a frame of pandas
    trace.report()["totals"]                # `quell report --json`; printed, the report itself
    trace.findings()                        # the causes of operations, each with its remedy
    trace.plot()                            # `quell report --html` in a notebook
    quell.diff("app.qtrace", "packed.qtrace")
    quell.predict(trace, fs="lustre", nodes="1..4096")

The tables are read from the trace's Parquet files; everything else comes from the `quell` binary of the same wheel. Frames need
polars or pandas; the import needs nothing.
"""

from ._answers import Answer, Drawing, Finding, Page, diff, predict
from ._binary import QuellError, QuellWarning, binary
from ._trace import METADATA, Trace, open

__all__ = [
    "METADATA",
    "Answer",
    "Drawing",
    "Finding",
    "Page",
    "QuellError",
    "QuellWarning",
    "Trace",
    "binary",
    "diff",
    "open",
    "predict",
]
