/* Four threads that record scopes, instants and counters in all forms: threads FOLDER. Prints the paths of the profile. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zprof.h>

enum { THREADS = 4, ROUNDS = 3 };

static void innermost(int round) {
    ZPROF_SITE_AT(site, "innermost", ZPROF_VERBOSE, ZPROF_FILTER(3));
    ZPROF_SCOPE_OF_WITH(&site, ZPROF_INT("round", round), ZPROF_STRN("cut", "abcdef", 3));
    ZPROF_INSTANT("tick");
    ZPROF_INSTANT_WITH("tock", ZPROF_BOOL("odd", round % 2), ZPROF_STR("none", NULL));
}

static void *work(void *context) {
    const int index = *(const int *)context;
    char name[16];
    snprintf(name, sizeof name, "worker %d", index);
    if (!zprof_thread_name(name)) {
        return "the thread cannot be named";
    }
    ZPROF_SCOPE_WITH("work", ZPROF_INT("index", -index), ZPROF_UINT("large", UINT64_MAX), ZPROF_FLOAT("half", index / 2.0),
                     ZPROF_STR("name", name), ZPROF_BOOL("first", index == 0));
    for (int round = 0; round < ROUNDS; round++) {
        ZPROF_SITE(site, "round");
        const zprof_scope scope = ZPROF_BEGIN_OF_WITH(&site, ZPROF_STEP(round));
        innermost(round);
        ZPROF_NOTE(scope, ZPROF_STR("state", "done"));
        ZPROF_END(scope);
        if (index == 0) {
            ZPROF_COUNTER("queue", ZPROF_INT("value", round - 1));
            ZPROF_COUNTER("heap", ZPROF_FLOAT("MiB", round + 0.5));
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 2 || strcmp(zprof_version(), ZPROF_VERSION) != 0 || !zprof_enabled()) {
        return 2;
    }
    zprof_options options = ZPROF_OPTIONS_INIT;
    options.repository_path = arguments[1];
    options.session_id = "threads";
    zprof_profiler *profiler = NULL;
    if (zprof_profiler_new(&options, &profiler) != ZPROF_OK || zprof_profiler_start(profiler) != ZPROF_OK) {
        fprintf(stderr, "%s\n", zprof_last_error());
        return 1;
    }
    pthread_t threads[THREADS];
    int indices[THREADS];
    for (int index = 0; index < THREADS; index++) {
        indices[index] = index;
        if (pthread_create(&threads[index], NULL, work, &indices[index]) != 0) {
            return 3;
        }
    }
    for (int index = 0; index < THREADS; index++) {
        void *wrong = NULL;
        pthread_join(threads[index], &wrong);
        if (wrong != NULL) {
            fprintf(stderr, "%s\n", (const char *)wrong);
            return 4;
        }
    }
    zprof_profile profile = ZPROF_PROFILE_INIT;
    if (zprof_profiler_stop(profiler, &profile) != ZPROF_OK) {
        fprintf(stderr, "%s\n", zprof_last_error());
        return 1;
    }
    printf("%s\n%s\n%llu scopes, %llu threads, %llu dropped, %zu warnings\n", profile.protobuf_path, profile.perfetto_path,
           (unsigned long long)profile.scopes, (unsigned long long)profile.threads,
           (unsigned long long)profile.dropped_scopes, profile.warning_count);
    zprof_profiler_free(profiler);
    return 0;
}
