# Names with a suffix, and directories on the way to them.
function __fish_quell_names --argument-names suffix
    __fish_complete_path (commandline -ct) | string match -r -- "^[^\t]*(?:/|\.$suffix)(?:\t.*)?\$"
end

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_quell_global_optspecs
    string join \n colour= q/quiet config= h/help V/version
end

function __fish_quell_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_quell_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_quell_using_subcommand
    set -l cmd (__fish_quell_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c quell -n "__fish_quell_needs_command" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_needs_command" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_needs_command" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_needs_command" -s V -l version -d 'Print version'
complete -c quell -n "__fish_quell_needs_command" -f -a "record" -d 'Run a command and record its file-system calls'
complete -c quell -n "__fish_quell_needs_command" -f -a "top" -d 'Watch what running processes ask of file systems, live'
complete -c quell -n "__fish_quell_needs_command" -f -a "import" -d 'Make a trace of what another tool logged'
complete -c quell -n "__fish_quell_needs_command" -f -a "report" -d 'Show what a recording holds'
complete -c quell -n "__fish_quell_needs_command" -f -a "fix" -d 'Say what to change, cheapest first, and what each change saves'
complete -c quell -n "__fish_quell_needs_command" -f -a "diff" -d 'Compare two recordings: who served what, before and after'
complete -c quell -n "__fish_quell_needs_command" -f -a "export" -d 'Write a recording in a form that another tool reads: a timeline, a flame graph, a table'
complete -c quell -n "__fish_quell_needs_command" -f -a "collect" -d 'Add jobs to a data set of many'
complete -c quell -n "__fish_quell_needs_command" -f -a "fleet" -d 'Show what many jobs cost, and what would save most'
complete -c quell -n "__fish_quell_needs_command" -f -a "predict" -d 'Predict how long programs wait for a shared file system on many nodes'
complete -c quell -n "__fish_quell_needs_command" -f -a "validate" -d 'Show what predictions say of figures that others published'
complete -c quell -n "__fish_quell_needs_command" -f -a "pack" -d 'Make an image of a recording: the working set and the absences, one file'
complete -c quell -n "__fish_quell_needs_command" -f -a "run" -d 'Run a command with an image in place of the files that it holds'
complete -c quell -n "__fish_quell_needs_command" -f -a "cache" -d 'Look into the cache of `run --auto`, and make room in it'
complete -c quell -n "__fish_quell_needs_command" -f -a "bcast" -d 'Copy an image to every node of a job, so that the file system serves it once'
complete -c quell -n "__fish_quell_needs_command" -f -a "warm" -d 'Read what a program will ask for, so that it starts plain on a warm client'
complete -c quell -n "__fish_quell_needs_command" -f -a "check" -d 'Compare an image with its originals, and let ranks trust that for a while'
complete -c quell -n "__fish_quell_needs_command" -f -a "gather" -d 'List, print and extract the files that `run --gather` wrote to containers'
complete -c quell -n "__fish_quell_needs_command" -f -a "image" -d 'Look into an image, check it, take out what it holds'
complete -c quell -n "__fish_quell_needs_command" -f -a "modules" -d 'Look at module trees of Environment Modules and Lmod, and make them cheaper to ask'
complete -c quell -n "__fish_quell_needs_command" -f -a "doctor" -d 'Find out what this node allows, what bars the rest, and what to ask the administrator for'
complete -c quell -n "__fish_quell_needs_command" -f -a "calibrate" -d 'Measure a file system and write its profile'
complete -c quell -n "__fish_quell_needs_command" -f -a "demo" -d 'Show the whole way on a program of this node: record, report, pack, run, compare'
complete -c quell -n "__fish_quell_needs_command" -f -a "synth" -d 'Make a trace of a named shape, and its files'
complete -c quell -n "__fish_quell_needs_command" -f -a "replay" -d 'Issue a recording\'s operations again, against a directory'
complete -c quell -n "__fish_quell_needs_command" -f -a "config" -d 'Show every setting, its value and where it comes from'
complete -c quell -n "__fish_quell_needs_command" -f -a "completions" -d 'Print a shell\'s completions'
complete -c quell -n "__fish_quell_needs_command" -f -a "help" -d 'Print the help of quell or of a command'
complete -c quell -n "__fish_quell_needs_command" -f -a "version" -d 'Print the version'
complete -c quell -n "__fish_quell_using_subcommand record" -s o -l output -d 'Write the trace to this directory [default: named after the program, such as app.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand record" -l until-started -d 'Record the start alone: complete the trace when nothing new was loaded for 10 seconds, or for SECONDS' -r
complete -c quell -n "__fish_quell_using_subcommand record" -l ranks -d 'Record these ranks instead, such as 0,17,31' -r
complete -c quell -n "__fish_quell_using_subcommand record" -l engine -d 'Record with ptrace, or through a mount of our own, which needs no ptrace [default: auto, the mount where ptrace is barred]' -r -f -a "auto\t'ptrace, or the mount where ptrace is barred'
ptrace\t'ptrace and a seccomp filter: every call, with its result'
mount\t'A pass-through file system over the roots: what is asked of them'"
complete -c quell -n "__fish_quell_using_subcommand record" -l root -d 'Record below this directory when it goes through a mount [default: every network mount point; on a node without any, /usr, /opt, the home and the working directory]' -r -F
complete -c quell -n "__fish_quell_using_subcommand record" -s p -l pid -d 'Record these processes, which run already, as `strace -f -p` does' -r
complete -c quell -n "__fish_quell_using_subcommand record" -l seconds -d 'End the recording of `-p` after this time' -r
complete -c quell -n "__fish_quell_using_subcommand record" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand record" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand record" -s f -l force -d 'Replace an earlier trace of the same name. Otherwise the trace takes the next free name, such as app-2.qtrace'
complete -c quell -n "__fish_quell_using_subcommand record" -l python -d 'Record also which Python module was imported by which statement, for the tree of imports in reports'
complete -c quell -n "__fish_quell_using_subcommand record" -l children -d 'Record also the processes that those of `-p` had started before'
complete -c quell -n "__fish_quell_using_subcommand record" -l disable -d 'Run the command plain: the switch to leave in a script'
complete -c quell -n "__fish_quell_using_subcommand record" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand top" -s p -l pid -d 'Watch these processes and their descendants, until all have ended. Your own processes; root may name any' -r
complete -c quell -n "__fish_quell_using_subcommand top" -l user -d 'Watch the processes of this user, a name or a number, later ones too [default: yourself]' -r
complete -c quell -n "__fish_quell_using_subcommand top" -l job -d 'Watch the processes of this batch job on this node, such as 1234 or 1234.0, later ones too' -r
complete -c quell -n "__fish_quell_using_subcommand top" -l interval -d 'Show the operations of so many seconds at a time' -r
complete -c quell -n "__fish_quell_using_subcommand top" -l count -d 'End after so many intervals' -r
complete -c quell -n "__fish_quell_using_subcommand top" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand top" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand top" -l json -d 'Print one JSON object a line for each interval'
complete -c quell -n "__fish_quell_using_subcommand top" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand import" -s o -l output -d 'Write the trace to this directory [default: named after the log, such as app.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand import" -l directory -d 'Resolve relative paths from this directory, if the log does not tell the command\'s own' -r -F
complete -c quell -n "__fish_quell_using_subcommand import" -l mounts -d 'Take the mounts from this copy of /proc/self/mountinfo of the node that ran the command' -r -F
complete -c quell -n "__fish_quell_using_subcommand import" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand import" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand import" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand import" -l here -d 'The command ran on this node, which is as it was: take mounts, symbolic links and libraries from it'
complete -c quell -n "__fish_quell_using_subcommand import" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand report" -l html -d 'Write a page for a browser to this file instead, with charts and everything in it; `-` prints it' -r -F
complete -c quell -n "__fish_quell_using_subcommand report" -l csv -d 'Print one table as CSV instead: a header line, then every row' -r -f -a "totals\t'one row, the whole run'
syscalls\t'a system call: calls, errors, times'
failures\t'a call and an error other than absence'
file-systems\t'a mount point'
paths\t'a path that metadata operations were about'
directories\t'a directory, with the names in it'
names\t'a name that was missed, wherever it was looked for'
commands\t'a command line'
searches\t'an entry of a search list'
wanted\t'a name that was searched for'
packages\t'a package of a language, such as numpy'
imports\t'a module, at its place in the tree of Python\'s imports'
files\t'a file that was opened, read or written'
request-sizes\t'a file\'s requests of one direction and size'
findings\t'a cause of operations, with its remedy'
phases\t'a phase of the run'
activity\t'an interval, a class and an outcome of operations'
open-files\t'an interval, and the most files open in it'
recordings\t'a recording'"
complete -c quell -n "__fish_quell_using_subcommand report" -l fail-on -d 'End with status 1 when there is a finding of one of these codes; `any` stands for all' -r -f -a "absent-attributes\t''
chatty-output\t''
collective-buffering\t''
font-cache\t''
julia-without-image\t''
locale-files\t''
lustre-striping\t''
many-creates\t''
module-rc-files\t''
module-tree-walk\t''
network-start-up\t''
open-close-churn\t''
polling\t''
program-wrappers\t''
python-bytecode\t''
python-distributions\t''
python-imports\t''
python-user-site\t''
readlink-storm\t''
repeated-listings\t''
repeated-stats\t''
search-list-misses\t''
search-path-misses\t''
small-files-by-every-rank\t''
temporary-files\t''
tiny-reads\t''
tiny-writes\t''
any\t''"
complete -c quell -n "__fish_quell_using_subcommand report" -l threshold -d 'Set a limit of a finding, such as search-path-misses=500; `quell report --thresholds` lists them' -r
complete -c quell -n "__fish_quell_using_subcommand report" -l osts -d 'Object storage targets of the Lustre file system, for advice on striping; `lfs osts` lists them' -r
complete -c quell -n "__fish_quell_using_subcommand report" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand report" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand report" -s a -l all -d 'Show every table: paths, directories, names, data by file and commands too'
complete -c quell -n "__fish_quell_using_subcommand report" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand report" -l thresholds -d 'List the limits of all findings instead'
complete -c quell -n "__fish_quell_using_subcommand report" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand fix" -l threshold -d 'Set a limit of a finding, such as search-path-misses=500; `quell report --thresholds` lists them' -r
complete -c quell -n "__fish_quell_using_subcommand fix" -l osts -d 'Object storage targets of the Lustre file system, for advice on striping; `lfs osts` lists them' -r
complete -c quell -n "__fish_quell_using_subcommand fix" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand fix" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand fix" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand fix" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand fix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand diff" -l fail-on-increase -d 'Fail only when a total is larger in B than in A, by default metadata_operations: METRIC, METRIC=COUNT or METRIC=PERCENT% for how much larger it may be. With commas, or several times, for several totals' -r
complete -c quell -n "__fish_quell_using_subcommand diff" -l csv -d 'Print one table as CSV instead: a header line, then every row' -r -f -a "totals\t'a total, or who served metadata operations'
syscalls\t'a system call: calls, errors, times'
searches\t'an entry of a search list that was asked differently'
paths\t'a path that was asked differently'"
complete -c quell -n "__fish_quell_using_subcommand diff" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand diff" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand diff" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand diff" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand export" -l format -d 'The form' -r -f -a "perfetto\t'A timeline, for Perfetto and chrome://tracing'
speedscope\t'A flame graph, for speedscope'
csv\t'A table with a row for each call'
parquet\t'The same table as a Parquet file'"
complete -c quell -n "__fish_quell_using_subcommand export" -s o -l output -d 'Write to this file; `-` prints [default: named after the first trace, such as app.speedscope.json]' -r -F
complete -c quell -n "__fish_quell_using_subcommand export" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand export" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand export" -s f -l force -d 'Replace a file of the same name'
complete -c quell -n "__fish_quell_using_subcommand export" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand collect" -s o -l output -d 'The directory of the data set. It is made if it is absent' -r -F
complete -c quell -n "__fish_quell_using_subcommand collect" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand collect" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand collect" -l compact -d 'Merge the files of each day that is over into one, after adding. Needs DuckDB, as `quell fleet` does. Once a day is enough'
complete -c quell -n "__fish_quell_using_subcommand collect" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand collect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand fleet" -l by -d 'The tables to show, separated by commas' -r -f -a "user\t'One row for each user'
program\t'One row for each program'
library\t'One row for each library'
finding\t'One row for each kind of finding'"
complete -c quell -n "__fish_quell_using_subcommand fleet" -l since -d 'Count only jobs that began within this time, such as 12h or 7d [default: all]' -r
complete -c quell -n "__fish_quell_using_subcommand fleet" -l rows -d 'Rows of each table at most' -r
complete -c quell -n "__fish_quell_using_subcommand fleet" -l job-stats -d 'Join with what the file system counted for each job: FILE is the output of `lctl get_param mdt.*.job_stats`, of any servers and moments. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand fleet" -l html -d 'Write a page for a browser; `-` prints it' -r -F
complete -c quell -n "__fish_quell_using_subcommand fleet" -l sql -d 'Print the queries, to be asked elsewhere' -r -f -a "duckdb\t'DuckDB'
spark\t'Spark'"
complete -c quell -n "__fish_quell_using_subcommand fleet" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand fleet" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand fleet" -l json -d 'Print one JSON object'
complete -c quell -n "__fish_quell_using_subcommand fleet" -l openmetrics -d 'Print gauges for Prometheus, in the text format of OpenMetrics'
complete -c quell -n "__fish_quell_using_subcommand fleet" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand fleet" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l nodes -d 'Numbers of nodes, such as 1,64,4096; 1..4096 is every power of two between, and both ends' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l ppn -d 'Processes on each node' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l fs -d 'The file system: a profile\'s file, or a name of --list-fs; several are compared [default: a wide prior]' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l print-fs -d 'Print a profile, to be read or changed: every figure with its spread and source' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l root -d 'Count calls below this directory, whatever served it when it was recorded [default: what a network file system served]' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l depth -d 'Names between --root and the mount point of the file system that is predicted' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l image -d 'Predict a start from an image of quell: read by each node, or broadcast' -r -f -a "read\t'Each node reads it from the shared file system'
broadcast\t'One node reads it, and the nodes pass it on as a tree'"
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l html -d 'Write a page for a browser to this file instead: the curve with its band, what spreads it, what changes would give; `-` prints it' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l measured -d 'Draw measured times into the page: a CSV file of nodes,ppn,seconds' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l think -d 'Computing time of the run, without any file system, where it is known better than from the recording. Unit: seconds' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l launch -d 'Launcher, MPI_Init and whatever else is no file system\'s time, added as it is. Unit: seconds' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l skew -d 'From the first node\'s start to the last one\'s, evenly spread. Unit: seconds' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l background -d 'Share of the metadata servers\' time that others take: 0 to less than 1, or as 30%' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l cores -d 'Cores that the processes of a node share [default: one for each]. Counted in cores that run alone: two that slow each other down may count as 1.5' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l stripes -d 'Data servers that one file, or the image, is spread over; with --compare the image alone [default: what the profile says, else all]' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l fewer-misses -d 'Predict that this share of the absent names is not asked for, as a shorter search path does: 0.5, 50%, or N/K for N of K entries' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l fewer-files -d 'Predict that this share of the files is gathered into others: 0.5, 50%, N/K' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l samples -d 'Runs of which the ranges are made; p10 and p90 of fewer than 20 say little' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l seed -d 'Seed of the runs\' choices; the same seed gives the same ranges' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l list-fs -d 'List the profiles that come with quell'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l compare -d 'Compare the ways of the program to the nodes: plain, served once a node as by Spindle, a container\'s image, an image of quell that is read, broadcast, or there already, and `run --auto` from its second start on'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l warm -d 'The program has run on the nodes right before: clients have forgotten nothing between the runs'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l shared-host -d 'All nodes and servers are one machine, and share its --cores'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l keep-absences -d 'Predict clients that keep absent names'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -l atomic-open -d 'Predict that lookup and open are one request'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand predict; and not __fish_seen_subcommand_from create" -a "create" -d 'Predict creates of many nodes in one directory, and say what to set'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l nodes -d 'Numbers of nodes, such as 1,64,4096; 1..4096 is every power of two between, and both ends' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l ppn -d 'Ranks of each node that create files' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l files -d 'Files that each rank creates' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l directories -d 'Directories that the nodes are spread over' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l fs -d 'The file system: a profile\'s file, or a name of --list-fs [default: gpfs]' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l pre-split -d 'The directory gets 2^LEVEL blocks as soon as it leaves its inode, by DirPreSplitLevels [default: as the profile]' -r
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l html -d 'Write a page for a browser to this file instead, with the curve, its band and what spreads it; `-` prints it' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l measured -d 'Draw measured times into the page: a CSV file of nodes,ppn,seconds' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l all-to-all -d 'All daemons are connected to each other beforehand, by allToAllConnection'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l serial-token -d 'Nodes take the inode\'s token exclusively, one after the other, as before Spectrum Scale 5.0.3'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l grown -d 'The directory has left its inode already, and has its blocks'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand predict; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand validate" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand validate" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand validate" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand validate" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand pack" -s o -l output -d 'Name of the image [default: named after the first recording, such as app.qimg; the one that --refresh names]' -r -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand pack" -l root -d 'Pack below this directory, whatever its file system. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand pack" -l refresh -d 'Make this image anew from its originals as they are now, and show the changes' -r -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand pack" -l learn -d 'With --refresh: add the paths that runs had to ask of the originals, from files that `quell run --learn FILE` wrote' -r -F
complete -c quell -n "__fish_quell_using_subcommand pack" -l add -d 'Pack everything in this directory, besides what was recorded. It must lie below a directory that is packed. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand pack" -l compress -d 'Compress the image for transport, as zstd does at LEVEL (1 to 19; 9 if none is given), or `no`. `quell run` serves it while it decompresses; `zstd -d` makes the plain image of it' -r
complete -c quell -n "__fish_quell_using_subcommand pack" -l nodes -d 'Show the bytes that N nodes will read of the image, and on Lustre the command that stripes it for them' -r
complete -c quell -n "__fish_quell_using_subcommand pack" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand pack" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand pack" -s f -l force -d 'Replace an earlier image of the same name'
complete -c quell -n "__fish_quell_using_subcommand pack" -l complete -d 'Make an image that is all that a run needs: no original is asked, a name that it does not hold is absent, and the directories that it covers need not exist. Compressed, unless `--compress=no` says otherwise'
complete -c quell -n "__fish_quell_using_subcommand pack" -l public -d 'Make an image for all users. It holds only what every user may read, by mode and by access control list'
complete -c quell -n "__fish_quell_using_subcommand pack" -l whole-files -d 'Hold all of each used file, not only its used blocks: a larger image, of which exports and other runs can use more'
complete -c quell -n "__fish_quell_using_subcommand pack" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand pack" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand run" -l root -d 'With --auto: pack below this directory, whatever its file system, and nowhere else. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l cache -d 'Keep the images of --auto in this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]. All nodes must see it' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l site-cache -d 'Look for images in these directories of the site first, which are only read' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l cache-size -d 'Let the cache take so much, such as 500M or 20G; what was used least recently goes first' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l check -d 'The ranks that compare the image with its originals before the command starts' -r -f -a "first\t'The first rank of the job'
all\t'One rank on each node, the one that comes first, whatever a stamp of `quell check` says'
none\t'No rank'"
complete -c quell -n "__fish_quell_using_subcommand run" -l on-stale -d 'Effect of originals that have changed since the image was packed. With `--require`: `fail`' -r -f -a "live\t'Changed files come from the originals, all others from the image'
refresh\t'The same; and the image is made anew when the run is over, if it is the user\'s own'
plain\t'The command runs plain'
fail\t'The command does not run: status 1'"
complete -c quell -n "__fish_quell_using_subcommand run" -l stats -d 'Write what was asked of the image and of the originals to this file, as JSON, when the command has ended, and again when the last process of the node\'s ranks has' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l learn -d 'Write what the image did not answer to this file when the command has ended, and again when the last process of the node\'s ranks has; `quell pack --refresh IMG --learn FILE` takes it in. Of a job, rank 0 and its node write' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l learn-ranks -d 'Have the nodes of these ranks write instead, such as 0,17,31; each rank but 0 to FILE.rankN' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l mode -d 'Run from a mount; or, on a node without FUSE, from the image\'s content, extracted into memory; or plain' -r -f -a "auto\t'The first of the others that works, in this order'
mount\t'The image is mounted by FUSE'
extract\t'Its content is copied into a read-only tmpfs; what it holds in part is made whole from the original, other files are bound'
off\t'The command runs plain'"
complete -c quell -n "__fish_quell_using_subcommand run" -l memory -d 'Let the image take at most so much of the node\'s memory, such as 500M or 2G [default: all that is free]. A plain image on a local file system takes none' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l peers -d 'Have these nodes give each other the parts of an image that lies on a network file system, so that one node reads it: the same list on each; `off`, each node reads it; `auto`, the nodes of the job [default: auto where a launcher tells of several nodes]' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l interface -d 'Get and give parts over this network: the name or the address of an interface [default: the route to the peer]' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l output -d 'Write standard output and error of all ranks of this node to FILE, in large pieces of whole lines, at least once a second. `%h` in FILE is the host, `%j` the job; where several nodes run and there is no `%h`, each adds `.HOST`. The image may be left out: `quell run --output FILE -- CMD`' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l open-mode -d 'With --output: the use of a FILE that is there' -r -f -a "truncate\t'It is emptied, unless another step of the job is writing to it'
append\t'Lines go to its end'"
complete -c quell -n "__fish_quell_using_subcommand run" -l scratch -d 'Keep what programs make or change below DIR in this node\'s memory, where all ranks of the job on the node see it. It is gone when the last of them has ended; what lies in DIR before can be read, and stays as it is. What memory has no room for goes to a hidden directory in DIR. PATTERN, such as `\'out/*.tmp\'`, limits it to some names of DIR. May be given several times. The image may be left out: `quell run --scratch DIR -- CMD`' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l scratch-memory -d 'With --scratch: take at most so much of the node\'s memory, such as 500M or 2G [default: a quarter of what is free]' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l scratch-disk -d 'With --scratch: put what memory has no room for into this directory first, which lies on a disk of the node' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l buffer -d 'Have small reads and writes of files below DIR reach the file system as large aligned ones. PATTERN, such as `*.dat`, limits it to some files. OPTIONs: `size=4M` for a buffer [default: 1M], `count=8` for the buffers of a file [default: 4], `ahead=2` for the buffers that are read ahead [default: 1], `private` where no file is written by several nodes at a time [default for a job of one node], else `shared`. May be given several times. The image may be left out: `quell run --buffer DIR -- CMD`' -r
complete -c quell -n "__fish_quell_using_subcommand run" -l gather -d 'Write the files that programs make or change below DIR to one container in DIR for each node, in large pieces. All ranks of the job on the node see them at once; `quell gather` lists, prints and extracts them later. What fsync acknowledged is in the container. PATTERN, such as `\'results/rank-*\'`, limits it to some names of DIR. May be given several times. The image may be left out: `quell run --gather DIR -- CMD`' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand run" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand run" -l auto -d 'Find the image in the cache, make it if there is none, and keep it up to date: the first start is recorded, later ones come from the image. A failure of quell leaves the command plain. QUELL_AUTO=0 runs it plain anyway'
complete -c quell -n "__fish_quell_using_subcommand run" -l refresh -d 'With --auto: record anew, and replace the image'
complete -c quell -n "__fish_quell_using_subcommand run" -l explain -d 'With --auto: say on standard error what was decided, and why'
complete -c quell -n "__fish_quell_using_subcommand run" -l require -d 'Fail, rather than run the command plain, where the image cannot be used'
complete -c quell -n "__fish_quell_using_subcommand run" -l disable -d 'Run the command plain: the switch to leave in a script'
complete -c quell -n "__fish_quell_using_subcommand run" -l trust -d 'Use an image that other users own, or can change or replace'
complete -c quell -n "__fish_quell_using_subcommand run" -l label -d 'With --output: begin each line with the number of its rank'
complete -c quell -n "__fish_quell_using_subcommand run" -l keep -d 'With --scratch: at the end, put new and changed files into the real directory. Nothing is removed from it'
complete -c quell -n "__fish_quell_using_subcommand run" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -l cache -d 'Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -f -a "ls" -d 'List the programs in the cache: size, last use, versions, state'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -f -a "path" -d 'Print the directory of the cache'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -f -a "make" -d 'Make the images whose recordings wait'
complete -c quell -n "__fish_quell_using_subcommand cache; and not __fish_seen_subcommand_from ls path make prune" -f -a "prune" -d 'Remove images of programs that were not used for long, or all'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -l cache -d 'Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from path" -l cache -d 'Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from path" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from path" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from path" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -l cache-size -d 'Let the cache take so much, such as 500M or 20G; what was used least recently goes first' -r
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -l cache -d 'Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from make" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l max -d 'Remove what was used least recently, until the cache takes no more than this, such as 5G' -r
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l older -d 'Remove what was not used for so long, such as 12h or 30d' -r
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l cache -d 'Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -l all -d 'Remove everything'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand cache; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand bcast" -l peers -d 'The nodes of the job, where no launcher tells: the same list on each. The first one reads IMG' -r
complete -c quell -n "__fish_quell_using_subcommand bcast" -l key -d 'A file that only you can read, with at least 16 bytes that are the same on all nodes: the secret of the job' -r -F
complete -c quell -n "__fish_quell_using_subcommand bcast" -l interface -d 'Send over this network: the name or the address of an interface [default: the route to the peer]' -r
complete -c quell -n "__fish_quell_using_subcommand bcast" -l port -d 'Listen at this port on every node [default: the first node one of three that follow from the job, the others any]' -r
complete -c quell -n "__fish_quell_using_subcommand bcast" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand bcast" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand bcast" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand bcast" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand warm" -s j -l in-flight -d 'Have at most N operations in flight' -r
complete -c quell -n "__fish_quell_using_subcommand warm" -l budget -d 'Read at most so much data, such as 500M or 2G; names and attributes are read all the same [default: half of the memory that is free]' -r
complete -c quell -n "__fish_quell_using_subcommand warm" -l cvmfs-bundle -d 'Read nothing, and write the list by which CVMFS clients fetch the files of a repository together' -r -F
complete -c quell -n "__fish_quell_using_subcommand warm" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand warm" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand warm" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand warm" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand warm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand check" -l valid-for -d 'Let ranks trust the result for so long, such as 90s, 10m, 2h, up to a day; 0 leaves no stamp' -r
complete -c quell -n "__fish_quell_using_subcommand check" -l jobs -d 'Have at most N operations in flight' -r
complete -c quell -n "__fish_quell_using_subcommand check" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand check" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand check" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand check" -l trust -d 'Compare an image that other users own, or can change or replace'
complete -c quell -n "__fish_quell_using_subcommand check" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -f -a "ls" -d 'List the files in containers'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -f -a "cat" -d 'Print the content of files in containers'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -f -a "extract" -d 'Write the files of containers under their own names'
complete -c quell -n "__fish_quell_using_subcommand gather; and not __fish_seen_subcommand_from ls cat extract mount" -f -a "mount" -d 'Show the files of containers below a directory, to be read'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from ls" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from ls" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from ls" -l json -d 'Print one JSON object instead, with the state of each container'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from cat" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from cat" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from cat" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -s o -l output -d 'The directory to write to [default: the one in which the containers lie]' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -s f -l force -d 'Replace files of the same names, and remove those that programs removed'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -l fsync -d 'Wait until each file is on stable storage'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from extract" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from mount" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from mount" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from mount" -s f -l foreground -d 'Stay in the foreground, and unmount at Ctrl-C'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from mount" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand gather; and __fish_seen_subcommand_from mount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "ls" -d 'List names with their kind, size and time, and whether content is held'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "info" -d 'Show the origin and content of an image'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "check" -d 'Check every byte of an image'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "cat" -d 'Print the content of files that an image holds'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "extract" -d 'Write the content of an image as files below a directory'
complete -c quell -n "__fish_quell_using_subcommand image; and not __fish_seen_subcommand_from ls info check cat extract export" -f -a "export" -d 'Write the content of an image as a tar archive or another file system'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from cat" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from cat" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from cat" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -s o -l output -d 'The directory to write to' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -l fill -d 'Read content that the image does not hold from the originals, where they have not changed. Files that look like keys or passwords stay left out'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -s f -l force -d 'Write into a directory that is not empty, and replace files of the same names'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -l trust -d 'As root: keep owners, set-user-ID bits, capabilities and devices also of an image that others can change'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -s o -l output -d 'The file to write; with --tar, `-` is standard output' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l tar -d 'Write a POSIX tar archive'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l squashfs -d 'Write a squashfs file system, with `mksquashfs` 4.5 or later'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l erofs -d 'Write an EROFS file system, as the image itself is: useful with --fill'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -l fill -d 'Read content that the image does not hold from the originals, where they have not changed. Files that look like keys or passwords stay left out'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -s f -l force -d 'Replace an earlier file of the same name'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "audit" -d 'Find faults in module trees, and queries that could cost less'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "convert" -d 'Convert module trees so that queries cost less, and prove that all answers stay the same'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "check" -d 'Compare caches with their trees, and name what changed'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "measure" -d 'Measure the calls of the site\'s own tools with each strategy, and recommend one'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "verify" -d 'Ask the site\'s own tools about two sets of modulepaths, and show answers that differ'
complete -c quell -n "__fish_quell_using_subcommand modules; and not __fish_seen_subcommand_from audit convert check measure verify example" -f -a "example" -d 'Make an example of a module tree for trials'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l tool -d 'The tool that users have. Findings that concern only the other tool are left out' -r -f -a "both\t'Environment Modules and Lmod'
modules\t'Environment Modules'
lmod\t'Lmod'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l modules-version -d 'The version of Environment Modules that users have [default: the oldest that is installed, or else 5.7.0]' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l lmod-cache -d 'Also audit the cache of Lmod in this directory. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l jobs -d 'Have at most N requests in flight' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l fail-on -d 'End with status 1 if there is a finding with one of these codes; `any` stands for all' -r -f -a "almost-modulefile\t''
cache-leak\t''
cache-stale\t''
cache-unreadable\t''
dangling-link\t''
lmod-cache-leak\t''
lmod-cache-misses\t''
lmod-cache-stale\t''
lmod-cache-unreadable\t''
lmod-lists\t''
lua-unreadable\t''
odd-name\t''
rc-ignored\t''
rc-left\t''
rc-mergeable\t''
restricted\t''
special-file\t''
stray\t''
string-comparison\t''
symlink-loop\t''
too-new\t''
unlisted\t''
unreadable\t''
version-missing\t''
virtual-missing\t''
any\t''"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l follow -d 'Include the modulepaths that modulefiles of these add. The tool of this shell, or one below /usr, loads each modulefile to find them, under root with the rights of an unprivileged user'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -s a -l all -d 'Show every path of each finding'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from audit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l to -d 'The form into which they are converted' -r -f -a "rc\t'One rc file for each modulepath'
eval\t'One rc file, and a tree for mcookie_check=eval'
virtual\t'A modulepath of virtual modules'
cache\t'The cache of Environment Modules, in each modulepath or below --out'
lmod-cache\t'The system cache of Lmod, in --out'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l out -d 'Write the new modulepaths into this directory, each by the name of the old one' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l undo -d 'Undo a conversion, or the builds of a cache, by its record or the directory that holds it. With --dry-run only tell the effect' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l commit -d 'Keep a conversion in place for good: remove the old modulepath and the record, so that another conversion is possible' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l tools -d 'Ask the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD, and those below /usr]. May be given several times' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l user -d 'Ask as this user, by name or number, with all groups of that user; build caches as the first of them. Only root may name another user. Without this option, modulefiles that other users can change are evaluated as their owner or as a user without rights' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l group -d 'Also ask as a member of this group, by name or number, without other rights. Only root may' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l follow -d 'Include the modulepaths that modulefiles of these add. The installed tool loads each modulefile to find them, under root with the rights of an unprivileged user, or of the first --user'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l in-place -d 'Replace the old modulepaths, which are kept beside the new ones as NAME.quell-before'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l dry-run -d 'Print the plan, ask the tools, and write nothing'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l delete-strays -d 'Leave out files that are no modulefiles, rather than hide them. Only for --to eval'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l exact -d 'Refuse the conversion even if only the reason of a refused request changes, such as "not there" instead of "permission denied"'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l eval-enforced -d 'State that every user has `mcookie_check=eval`. Virtual modules need this: without it they are slower than files'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l no-verify -d 'Skip verification with the installed tools'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from convert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -l out -d 'Look for the caches of modulepaths below this directory, where `convert --to cache --out DIR` put them' -r -f -a "(__fish_complete_directories)"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -l follow -d 'Include the modulepaths that modulefiles of these add. The tool of this shell, or one below /usr, loads each modulefile to find them, under root with the rights of an unprivileged user'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l latency -d 'The time of a call on the module tree, in microseconds: 1 to 5 on a local disk, 1000 and more on a busy shared file system' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l load -d 'Load this module [default: one in the middle of the listing]' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l work -d 'Copy and record in a directory below this one [default: that of temporary files]' -r -f -a "(__fish_complete_directories)"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l runs -d 'Run each command N times without the recorder, for its CPU time' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l tools -d 'Run the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD, and those below /usr]. May be given several times' -r -f -a "(__fish_complete_directories)"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l user -d 'Run the tools as this user, by name or number, with all groups of that user. Only root may name another user' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from measure" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l with -d 'A variable in the environment of users of NEW, such as MODULES_MCOOKIE_CHECK=eval. May be given several times' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l group -d 'Also ask as a member of this group, by name or number, without other rights. Only root may' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l tools -d 'Run the tools below this prefix, or this tool: Environment Modules or Lmod [default: those of MODULES_CMD and LMOD_CMD, and those below /usr]. May be given several times' -r -f -a "(__fish_complete_directories)"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l user -d 'Run the tools as this user, by name or number, with all groups of that user. Only root may name another user' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l exact -d 'Count a refused request as a difference if only its reason changes, such as "not there" instead of "permission denied" after `convert --to eval`'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l modulepaths -d 'Modulepaths: applications, libraries, applications1, and so on' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l names -d 'Names in each modulepath' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l versions -d 'Versions of each name' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l lines -d 'Lines of each modulefile, each a command that sets a variable' -r
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand modules; and __fish_seen_subcommand_from example" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand doctor" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand doctor" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand doctor" -l trust -d 'Look at an image that other users own, or can change or replace'
complete -c quell -n "__fish_quell_using_subcommand doctor" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand doctor" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand calibrate" -s o -l output -d 'File of the profile' -r -F
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l second-client -d 'Words that run a command on a second client of the same file system. Without it lifetimes in caches and stats of another client\'s files are not measured. Given again it is a third client, and so on: one client\'s own limit hides what the server can do' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l processes -d 'Most processes at once [default: 8]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l items -d 'Operations of each process in a phase [default: 300, with --quick 60]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l iterations -d 'Repetitions of each phase [default: 3, with --quick 2]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l at-most -d 'Begin nothing new after so long, such as 90s or 10m [default: 10m, with --quick 2m]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l cache-wait -d 'Wait so long for the client to forget what it keeps [default: 65s, with --quick 5s]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l file-size -d 'Read a file of this size, such as 64M [default: 128M, with --quick 16M]' -r
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l csv -d 'Write every case and repetition to this file as CSV' -r -F
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand calibrate" -l quick -d 'Take about half a minute instead of several minutes: fewer operations, two repetitions, caches of up to five seconds'
complete -c quell -n "__fish_quell_using_subcommand calibrate" -s f -l force -d 'Replace earlier files of the same names'
complete -c quell -n "__fish_quell_using_subcommand calibrate" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand calibrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand demo" -l keep -d 'Keep the traces and the image in this new directory' -r -F
complete -c quell -n "__fish_quell_using_subcommand demo" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand demo" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand demo" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -f -a "pynamic" -d 'Hundreds of generated libraries that Python imports: launch, import, visit'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -f -a "warp" -d 'A Python application on a Cray: 3388 opens, 1632 stats, 500 reads'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -f -a "julia" -d 'A Julia start that finds nothing changed: 12 000 stats, 4 opens'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -f -a "modules" -d '`module avail` on a tree of modulefiles'
complete -c quell -n "__fish_quell_using_subcommand synth; and not __fish_seen_subcommand_from pynamic warp julia modules search-path" -f -a "search-path" -d 'A loader that looks for libraries on a search path'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -s o -l output -d 'Directory of the trace [default: named after the shape, such as julia.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l tree -d 'Write the files too, below this directory, which must be new or empty; the trace then names them there' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l at -d 'Without --tree: the directory that the trace names [default: /shared/SHAPE]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l file-system -d 'The type of the file system that is mounted there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l compute -d 'Seconds that the program computes, spread evenly between its calls' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l modules -d 'Libraries that are imported' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l utilities -d 'Libraries that those need' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l entries -d 'Directories of the search path, over which libraries are spread evenly' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l bytes -d 'All libraries together, such as 500M [default: 1390000000]' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l touched -d 'Percent of each library that is touched' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l visit -d 'Seconds that visiting takes, besides --compute' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from pynamic" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -s o -l output -d 'Directory of the trace [default: named after the shape, such as julia.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l tree -d 'Write the files too, below this directory, which must be new or empty; the trace then names them there' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l at -d 'Without --tree: the directory that the trace names [default: /shared/SHAPE]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l file-system -d 'The type of the file system that is mounted there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l compute -d 'Seconds that the program computes, spread evenly between its calls' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from warp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -s o -l output -d 'Directory of the trace [default: named after the shape, such as julia.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l tree -d 'Write the files too, below this directory, which must be new or empty; the trace then names them there' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l at -d 'Without --tree: the directory that the trace names [default: /shared/SHAPE]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l file-system -d 'The type of the file system that is mounted there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l compute -d 'Seconds that the program computes, spread evenly between its calls' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l packages -d 'Packages' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l files -d 'Source files of each' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l project-stats -d 'Stats of the project\'s file' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l misses -d 'Compiled files that are looked for and are not there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from julia" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -s o -l output -d 'Directory of the trace [default: named after the shape, such as julia.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l tree -d 'Write the files too, below this directory, which must be new or empty; the trace then names them there' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l at -d 'Without --tree: the directory that the trace names [default: /shared/SHAPE]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l file-system -d 'The type of the file system that is mounted there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l compute -d 'Seconds that the program computes, spread evenly between its calls' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l paths -d 'Modulepaths' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l names -d 'Names in each' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l versions -d 'Versions of each name' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l setup -d 'The settings of the tree' -r -f -a "plain\t'An rc file for each name'
rc-file\t'One rc file for each modulepath'
eval\t'`mcookie_check` is `eval`: files are not opened to see whether they are modulefiles'
virtual\t'Virtual modules: directories of names are not looked into'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from modules" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -s o -l output -d 'Directory of the trace [default: named after the shape, such as julia.qtrace]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l tree -d 'Write the files too, below this directory, which must be new or empty; the trace then names them there' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l at -d 'Without --tree: the directory that the trace names [default: /shared/SHAPE]' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l file-system -d 'The type of the file system that is mounted there' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l compute -d 'Seconds that the program computes, spread evenly between its calls' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l entries -d 'Directories of the search path' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l names -d 'Names that are looked for' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l positions -d 'In which directory each name is found, such as 1,5,30, again from the start when there are more names; 0 is nowhere [default: as many names in each directory]' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l bytes -d 'The size of each file, such as 64K' -r
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -s f -l force -d 'Replace an earlier trace of the same name'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand synth; and __fish_seen_subcommand_from search-path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand replay" -l root -d 'The directory to replay against' -r -F
complete -c quell -n "__fish_quell_using_subcommand replay" -l from -d 'The recorded directory in whose place it stands [default: the mount point of the busiest network file system]' -r -F
complete -c quell -n "__fish_quell_using_subcommand replay" -l ranks -d 'Ranks on this node; behind a launcher, for each of its ranks' -r
complete -c quell -n "__fish_quell_using_subcommand replay" -l think -d 'Time between operations, which is slept: `none` for full speed, `recorded`, or a factor such as 0.5' -r
complete -c quell -n "__fish_quell_using_subcommand replay" -l meet -d 'Behind a launcher on several nodes: the host of rank 0, and a free port there, where ranks meet to begin at once' -r
complete -c quell -n "__fish_quell_using_subcommand replay" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand replay" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand replay" -l writes -d 'Issue what changes files too, in a directory of each rank\'s own below --root, which is removed at the end; what a killed replay leaves the next one names. It needs Linux 5.6'
complete -c quell -n "__fish_quell_using_subcommand replay" -l csv -d 'Print a table of operations by class as CSV instead'
complete -c quell -n "__fish_quell_using_subcommand replay" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand replay" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand replay" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand config" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand config" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand config" -l json -d 'Print one JSON object instead'
complete -c quell -n "__fish_quell_using_subcommand config" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand completions" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand completions" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand completions" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand help" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand help" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand help" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand version" -l colour -l color -d 'Use colour on terminals, always or never' -r -f -a "auto\t'On a terminal'
always\t'Everywhere'
never\t'Nowhere'"
complete -c quell -n "__fish_quell_using_subcommand version" -l config -d 'Read this settings file instead of the user\'s' -r -F
complete -c quell -n "__fish_quell_using_subcommand version" -s q -l quiet -d 'Say nothing but warnings and errors, each with its hint'
complete -c quell -n "__fish_quell_using_subcommand version" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c quell -n "__fish_quell_using_subcommand report" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand fix" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand diff" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand export" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand collect" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand predict" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand pack" -f -a "(__fish_quell_names qtrace)"
complete -c quell -n "__fish_quell_using_subcommand run; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand bcast; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand check" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from ls; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from info" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from check" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from cat; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from extract; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand image; and __fish_seen_subcommand_from export; and not string match -q '*.qimg' -- (commandline -opc)" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand doctor" -f -a "(__fish_quell_names qimg)"
complete -c quell -n "__fish_quell_using_subcommand replay" -f -a "(__fish_quell_names qtrace)"
