/* A library that is loaded while the program runs, and leaves the C API to those who load it. */
#include <zprof.h>

void loaded_work(int number);

void loaded_work(int number) {
    ZPROF_SCOPE_WITH("loaded", ZPROF_INT("number", number));
}
