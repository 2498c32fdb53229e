/* A program with zprof that loads a second copy of it: both are profiled to the end of the process. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zprof.h>

typedef zprof_status init(bool *profiling);

int main(int count, char **arguments) {
    bool first = false, second = false;
    void *library;
    void *symbol;
    init *second_init;
    if (count != 2 || zprof_init_from_env(&first) != ZPROF_OK) {
        fprintf(stderr, "%s\n", zprof_last_error());
        return 1;
    }
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || (symbol = dlsym(library, "zprof_init_from_env")) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    memcpy(&second_init, &symbol, sizeof symbol);
    if (second_init(&second) != ZPROF_OK) {
        fprintf(stderr, "the second copy has no session\n");
        return 1;
    }
    printf("%d %d\n", first, second);
    return 0;
}
