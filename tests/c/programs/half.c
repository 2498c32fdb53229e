/* The C part of a program that is half Rust. */
#include <stdlib.h>
#include <zprof.h>

void half_scopes(int depth, void (*inner)(void *), void *context);
void half_receive(uint64_t flow);
void *half_across(void);
void half_across_end(void *across);
void half_spin(int form, uint64_t count);
int half_start(void);
bool half_name(const char *name);

void half_scopes(int depth, void (*inner)(void *), void *context) {
    ZPROF_SCOPE_WITH("c.scope", ZPROF_INT("depth", depth));
    if (depth > 0) {
        half_scopes(depth - 1, inner, context);
    } else {
        inner(context);
    }
}

void half_receive(uint64_t flow) {
    ZPROF_SCOPE_WITH("c.receive", ZPROF_RECEIVES(flow));
    ZPROF_COUNTER("received", ZPROF_UINT("value", 1));
}

void *half_across(void) {
    ZPROF_SITE(site, "c.across");
    zprof_scope *scope = malloc(sizeof *scope);
    if (scope != NULL) {
        *scope = ZPROF_BEGIN_OF(&site);
    }
    return scope;
}

void half_across_end(void *across) {
    const zprof_scope *scope = across;
    if (scope != NULL) {
        ZPROF_END(*scope);
    }
    free(across);
}

void half_spin(int form, uint64_t count) {
    static const char *const texts[] = {"greedy", "sample", "beam"};
    for (uint64_t n = 0; n < count; n++) {
        switch (form) {
        case 0: {
            ZPROF_SCOPE("none");
            break;
        }
        case 1: {
            ZPROF_SCOPE_WITH("ints", ZPROF_UINT("a", n), ZPROF_INT("b", 7));
            break;
        }
        case 2: {
            ZPROF_SCOPE_WITH("text", ZPROF_STR("mode", texts[n % 3]), ZPROF_UINT("b", n));
            break;
        }
        default:
            __asm__ volatile("" ::"r"(n) : "memory");
        }
    }
}

bool half_name(const char *name) {
    return zprof_thread_name(name);
}

int half_start(void) {
    zprof_profiler *profiler = NULL;
    zprof_status status = zprof_profiler_new(NULL, &profiler);
    if (status == ZPROF_OK) {
        status = zprof_profiler_start(profiler);
    }
    zprof_profiler_free(profiler);
    return status;
}
