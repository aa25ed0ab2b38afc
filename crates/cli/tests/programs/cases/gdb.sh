# gdb on a program below the root: breakpoint, source, shared library, a core of it; strace and perf of it.

plant() {
    mkdir env/bin env/src env/lib
    printf 'int part(int x) {\n    return x * 2;\n}\n' >env/src/part.c
    printf '#include <stdlib.h>\nint part(int);\nint main(int argc, char **argv) {\n    if (argc > 1) abort();\n    return part(argc) - 2;\n}\n' >env/src/main.c
    (cd env/src && cc -g -shared -fPIC -o ../lib/libpart.so part.c &&
        cc -g -o ../bin/main main.c -L../lib -lpart '-Wl,-rpath,$ORIGIN/../lib')
}

use() {
    export DEBUGINFOD_URLS=
    gdb -nx -batch -ex 'set startup-with-shell off' -ex 'break part' -ex run -ex bt -ex 'print x' -ex list \
        -ex 'info sharedlibrary' -ex continue env/bin/main 2>&1 |
        grep -v -e 'libthread_db' -e '^\[Inf' -e '0x0' -e '^warning'
    cd env/bin && rm -f core* && ulimit -c unlimited
    (./main crash; echo $?) 2>/dev/null
    # The kernel writes it as the crashed process would: into its directory.
    case "$(cat /proc/sys/kernel/core_pattern)" in
    core)
        mv core* core && stat -c '%a %u' core
        gdb -nx -batch -ex bt main core 2>&1 | grep -o 'in main (.* at .*' | sed 's/0x[0-9a-f]*//'
        rm core
        ;;
    esac
    strace -qq -f -e trace=openat,execve -e signal=none ./main 2>&1 | grep -o 'libpart.*\|execve.*main' | sed 's/ = .*//; s/0x[0-9a-f]*//; s/\/\* .*//'
}

"$1"
