"""A data set as `quell collect` and compaction leave it: jobs of many users over some days, one file a day.

    bench/fleet/generate.py DIR --like FILE [--jobs N] [--days N] [--seed N]

Users and programs are chosen as on real machines: a few have most jobs (Zipf), and costs have a long tail (log-normal). The
columns are those of a file that `quell collect` wrote, `--like FILE`, so that a change of them is met here.
"""

import argparse
import datetime
import os

import numpy
import pyarrow
import pyarrow.parquet

CODES = ["search-path-misses", "network-start-up", "python-imports", "repeated-stats", "search-list-misses", "locale-files",
         "readlink-storm", "python-user-site", "open-close-churn", "small-files-by-every-rank", "module-tree-walk", "tiny-reads"]
CLASSES = ["opens", "stats", "accesses", "readlinks", "listings", "xattrs", "statfs", "changes", "execs", "reads", "writes"]


def zipf(random, count, size):
    """Ranks from 0 to `count`, the first most often."""
    weights = 1 / numpy.arange(1, count + 1)
    return random.choice(count, size, p=weights / weights.sum())


def lists(lengths, fields):
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int32)
    return pyarrow.ListArray.from_arrays(offsets, pyarrow.StructArray.from_arrays(list(fields.values()), list(fields)))


def names(values, indexes):
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(indexes.astype(numpy.int32)), values).dictionary_decode()


def jobs(random, count, day, first):
    """One day's table, without the types of the columns."""
    users = zipf(random, 2000, count)
    programs = zipf(random, 5000, count)
    cost = numpy.minimum(random.lognormal(8.5, 1.6, count), 5e7).astype(numpy.int64)
    missed = (cost * random.beta(2, 2, count)).astype(numpy.int64)
    classes = (cost[:, None] * random.dirichlet(numpy.ones(len(CLASSES)), count)).astype(numpy.int64)
    findings, libraries = random.integers(0, 6, count), random.integers(0, 11, count)
    found = numpy.repeat(cost, findings)
    caused = (found * random.beta(1, 4, len(found))).astype(numpy.int64)
    of_library = (numpy.repeat(cost, libraries) * random.beta(1, 12, libraries.sum())).astype(numpy.int64)
    codes = zipf(random, len(CODES), len(found))
    digest = random.bytes(16 * count).hex()
    zero = pyarrow.array(numpy.zeros(count, numpy.int64))
    columns = {
        "id": pyarrow.array([digest[32 * i:32 * i + 32] for i in range(count)]),
        "user_name": names(pyarrow.array([f"user{n}" for n in range(2000)]), users),
        "uid": pyarrow.array(users + 10_000),
        "program": names(pyarrow.array([f"python3.11 app{n}.py" if n % 2 else f"solver{n}" for n in range(5000)]), programs),
        "command": names(pyarrow.array([f"python3.11 /home/p/app{n}.py --input data" for n in range(5000)]), programs),
        "host": names(pyarrow.array([f"node{n:05}" for n in range(4096)]), random.integers(0, 4096, count)),
        "job": pyarrow.array([str(number) for number in range(first, first + count)]),
        "began": pyarrow.array(day + numpy.sort(random.integers(0, 86_400_000_000, count)), pyarrow.timestamp("us")),
        "seconds": pyarrow.array(numpy.round(random.lognormal(6, 2, count) % 1e6, 3)),
        "quell": names(pyarrow.array(["0.1.0"]), numpy.zeros(count)),
        "calls": pyarrow.array(cost * 3),
        "metadata_operations": pyarrow.array(cost + cost // 7),
        "needed": pyarrow.array(cost // 3),
        "missed": pyarrow.array(missed),
        "on_network": pyarrow.array(cost),
        "on_local": pyarrow.array(cost // 7),
        "cost": pyarrow.array(cost),
        "cost_after": pyarrow.array((cost * random.beta(2, 3, count)).astype(numpy.int64)),
        "findings": lists(findings, {
            "code": names(pyarrow.array(CODES), codes),
            "operations": pyarrow.array(caused),
            "operations_after": pyarrow.array(caused // 20),
            "is_first": pyarrow.array(numpy.ones(len(found), numpy.int64)),
        }),
        "finding_titles": lists(findings, {
            "title": pyarrow.array([f"{number} of {of} metadata operations looked for names that are absent"
                                    for number, of in zip(caused.tolist(), found.tolist())]),
        }),
        "libraries": lists(libraries, {
            "name": names(pyarrow.array([f"library{n}" for n in range(3000)]), zipf(random, 3000, len(of_library))),
            "operations": pyarrow.array(of_library),
            "missed": pyarrow.array(of_library // 3),
        }),
    }
    for name, values in zip(CLASSES, classes.T):
        columns[name] = pyarrow.array(numpy.ascontiguousarray(values))
    return columns, zero


def typed(columns, zero, schema):
    """The table in the types that quell writes; what is not generated is zero or null."""
    arrays = []
    for field in schema:
        if field.name in columns:
            arrays.append(columns[field.name].cast(field.type, safe=False))
        else:
            arrays.append(pyarrow.nulls(len(zero), field.type) if field.nullable else zero.cast(field.type))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--like", required=True, help="a file of the table `jobs` that quell wrote")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    random = numpy.random.default_rng(flags.seed)
    schema = pyarrow.parquet.read_schema(flags.like)
    last = datetime.datetime.now(datetime.timezone.utc).date()
    for number in range(flags.days):
        day = last - datetime.timedelta(days=number)
        count = flags.jobs // flags.days + (number < flags.jobs % flags.days)
        since_1970 = (day - datetime.date(1970, 1, 1)).days * 86_400_000_000
        table = typed(*jobs(random, count, since_1970, 1_000_000 * number), schema)
        place = os.path.join(flags.directory, "jobs", f"day={day}")
        os.makedirs(place, exist_ok=True)
        pyarrow.parquet.write_table(table, os.path.join(place, f"{number:032x}.parquet"), compression="zstd")


if __name__ == "__main__":
    main()
