# %% [markdown]
# # A storm in a notebook
#
# `import quell` comes with quell's wheel. It opens recordings as frames of [polars](https://pola.rs) or pandas, and asks the
# `quell` binary for everything else. [The page on it](python.md) has all names; [the trace](trace.md) has the columns.
#
# A recording is made on the command line: `quell record -- CMD`. For the same numbers everywhere, this notebook takes made-up
# ones: a loader that looks for 100 libraries in 30 directories, and the same with 10 directories.

# %%
!quell synth search-path -q --entries 30 -o before.qtrace
!quell synth search-path -q --entries 10 -o after.qtrace

# %%
import polars as pl
import quell

trace = quell.open("before.qtrace")
trace

# %% [markdown]
# ## The report and its findings
#
# `report()` is the JSON object of `quell report --json`. Printed, it is the report for people.

# %%
report = trace.report()
print(str(report).split("\n\n")[0])
report["totals"]

# %%
pl.DataFrame(trace.findings())

# %% [markdown]
# `plot()` is the page of `quell report --html`. A notebook shows it below the cell, with its charts and tables to search in. This
# file leaves it out, because it is large.

# %%
trace.plot()

# %% [markdown]
# ## Frames
#
# Every table of the trace is a lazy frame. Numbers of paths are text already, and only the columns that are asked for are read.
# Here are the directories in which most names were looked for in vain.

# %%
missed = trace.events.filter(pl.col("class").is_in(quell.METADATA), pl.col("errno").is_in([2, 20]))
directory = pl.col("target").str.extract(r"^(.*)/").alias("directory")
missed.group_by(directory).agg(missed=pl.len()).sort("missed", "directory", descending=[True, False]).head(5).collect()

# %% [markdown]
# Rows that other tables name by number carry that number, so that tables join by name.

# %%
served = trace.events.join(trace.mounts, on=["recording", "file_system"])
served.group_by("served_by", "type", "class").agg(calls=pl.len()).sort("calls", "class", descending=[True, False]).collect()

# %% [markdown]
# ## Before and after

# %%
change = quell.diff(trace, "after.qtrace")
totals = change["totals"]
pl.DataFrame({"total": list(totals["a"]), "before": totals["a"].values(), "after": totals["b"].values()})

# %% [markdown]
# ## On many nodes
#
# The answer is a range, here of a prior that spans many installations of Lustre.

# %%
curves = []
for name in ("before", "after"):
    points = quell.predict(f"{name}.qtrace", fs="lustre", nodes=[1, 64, 1024], ppn=64)["points"]
    curves += [{"search path": name, "nodes": point["nodes"], **point["seconds"]} for point in points]
pl.DataFrame(curves).with_columns(pl.col("p10", "p50", "p90").round(1))
