# The loader: RUNPATH with $ORIGIN, dlopen, LD_PRELOAD, BIND_NOW, a trailing colon, one library under two names.

plant() {
    mkdir env/bin env/lib env/lib/plug
    echo 'int answer(void) { return 42; }' >part.c
    echo 'int half(void) { return 21; }' >half.c
    echo 'int getppid(void) { return 7; }' >preload.c
    cat >main.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>
int answer(void);
int main(int argc, char **argv) {
    printf("%d %d", answer(), getppid() == 7);
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW);
        if (!library) { printf(" [%s]", dlerror()); continue; }
        struct link_map *map;
        dlinfo(library, RTLD_DI_LINKMAP, &map);
        int (*half)(void) = (int (*)(void))dlsym(library, "half");
        printf(" %s=%d", map->l_name, half ? half() : -1);
    }
    puts("");
    return 0;
}
END
    cc -shared -fPIC -o env/lib/libpart.so part.c
    cc -shared -fPIC -o env/lib/plug/libhalf.so half.c
    cc -shared -fPIC -o env/lib/preload.so preload.c
    ln env/lib/plug/libhalf.so env/lib/plug/libsame.so
    ln -s libhalf.so env/lib/plug/liblink.so
    cc -o env/bin/lazy main.c -Lenv/lib -lpart '-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/../lib/plug' -Wl,--enable-new-dtags
    cc -o env/bin/now main.c -Lenv/lib -lpart '-Wl,-rpath,$ORIGIN/../lib' -Wl,--disable-new-dtags -Wl,-z,now
    cc -o env/bin/bare main.c -Lenv/lib -lpart
    rm part.c half.c preload.c main.c
}

use() {
    for program in lazy now; do
        env/bin/$program libhalf.so libsame.so liblink.so libabsent.so
        LD_PRELOAD="$PWD/env/lib/preload.so" env/bin/$program
        LD_BIND_NOW=1 env/bin/$program "$PWD/env/lib/plug/libsame.so" "$PWD/env/lib/plug/../plug/liblink.so"
    done
    env/bin/bare
    (cd env/lib && LD_LIBRARY_PATH=/proc/absent: ../bin/bare libpart.so)
    (cd env/lib/plug && LD_LIBRARY_PATH=..: ../../bin/bare libhalf.so)
    LD_LIBRARY_PATH=env/lib:env/lib/plug ldd env/bin/bare | grep -o 'libpart.*(' | cut -d' ' -f1-3
    /lib64/ld-linux-x86-64.so.2 --library-path env/lib env/bin/bare
}

"$1"
