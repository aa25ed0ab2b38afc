// Has libraries in NEEDED, and loads one by its bare name and one that is nowhere.
#include <dlfcn.h>

int one(void);
int two(void);

int main(void) {
    dlopen("libplugin.so", RTLD_NOW);
    dlopen("libabsent.so", RTLD_NOW);
    return one() + two();
}
