# A build below the root: make, cc, ar, ld; what it makes is run, and only what changed is built again.

plant() {
    mkdir -p env/src env/include
    echo 'int value(void);' >env/include/value.h
    printf '#include "value.h"\nint value(void) { return 40; }\n' >env/src/value.c
    printf '#include <stdio.h>\n#include <value.h>\nint main(void) { printf("%%d\\n", value()); return 0; }\n' >env/src/main.c
    cat >env/Makefile <<'END'
main: build/main.o build/libvalue.a
	cc -o $@ build/main.o -Lbuild -lvalue
build/%.o: src/%.c include/value.h
	@mkdir -p build
	cc -Iinclude -c -o $@ $<
build/libvalue.a: build/value.o
	ar rcD $@ $^
clean:
	rm -rf build main
END
}

use() {
    cd env && make 2>&1 && ./main && make
    sleep 0.01 && sed -i 's/40/41/' src/value.c && make && ./main
    strip main && ./main && sed -i 's/41/40/' src/value.c && make clean && ls
}

"$1"
