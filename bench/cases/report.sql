-- The questions of `quell report` that a table can answer, asked of a trace's Parquet files: $TRACE is its directory.
-- One statement a question, each behind a line that names it. `docs/trace.md` explains the columns.

-- calls and errors by system call
SELECT call, count(*) AS calls, count(errno) AS errors
FROM '$TRACE/events.parquet' GROUP BY call ORDER BY calls DESC, call;

-- the 100 paths with most metadata operations
SELECT path, operations FROM (
    SELECT target, count(*) AS operations
    FROM '$TRACE/events.parquet' WHERE class IN ($METADATA) AND target IS NOT NULL
    GROUP BY target ORDER BY operations DESC LIMIT 100
) JOIN '$TRACE/paths.parquet' ON id = target ORDER BY operations DESC, path;

-- misses by directory
SELECT regexp_replace(path, '/[^/]*$', '') AS directory, sum(misses)::BIGINT AS misses FROM (
    SELECT target, count(*) AS misses
    FROM '$TRACE/events.parquet' WHERE class IN ($METADATA) AND errno IN (2, 20) AND target IS NOT NULL
    GROUP BY target
) JOIN '$TRACE/paths.parquet' ON id = target GROUP BY directory ORDER BY misses DESC, directory LIMIT 100;

-- metadata operations by who served them
SELECT served_by, mount_point, type, operations FROM (
    SELECT file_system, count(*) AS operations
    FROM '$TRACE/events.parquet' WHERE class IN ($METADATA) GROUP BY file_system
) LEFT JOIN read_parquet('$TRACE/mounts.parquet', file_row_number = true) ON file_row_number = file_system
ORDER BY operations DESC;
