/* A flight recorder in C, with levels by module; and a session that the environment asks for. */
#include <stdio.h>
#include <string.h>
#include <zprof.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zprof_last_error());
    return 1;
}

static void work(int first, int end) {
    ZPROF_SITE_AT(loud, "loud", ZPROF_VERBOSE, 0);
    ZPROF_SITE(quiet, "quiet");
    for (int n = first; n < end; n++) {
        const zprof_arg arg = ZPROF_INT("n", n);
        const zprof_scope outer = zprof_begin(&quiet, &arg, 1);
        zprof_end(zprof_begin(&loud, NULL, 0));
        zprof_end(outer);
    }
}

int main(int count, char **arguments) {
    if (count == 1) {
        bool profiling = true;
        if (zprof_init_from_env(&profiling) != ZPROF_OK) {
            return failed("environment");
        }
        printf("%d\n", profiling);
        work(0, 2);
        return 0;
    }
    zprof_options options = ZPROF_OPTIONS_INIT;
    options.repository_path = arguments[1];
    options.session_id = "flight";
    options.directives = "c=info";
    options.keep_last_ns = 3600ull * 1000 * 1000 * 1000;
    options.keep_last_bytes = 1 << 20;
    zprof_profiler *profiler = NULL;
    if (zprof_profiler_new(&options, &profiler) != ZPROF_OK || zprof_profiler_start(profiler) != ZPROF_OK) {
        return failed("start");
    }
    ZPROF_SITE(around, "around");
    const zprof_scope open = zprof_begin(&around, NULL, 0);
    work(0, 3);
    zprof_profile profile = ZPROF_PROFILE_INIT;
    if (zprof_profiler_snapshot(profiler, &profile) != ZPROF_OK) {
        return failed("snapshot");
    }
    printf("%s %llu\n", profile.protobuf_path, (unsigned long long)profile.scopes);
    work(3, 5);
    zprof_end(open);
    if (zprof_profiler_stop(profiler, &profile) != ZPROF_OK) {
        return failed("stop");
    }
    printf("%s %llu\n", profile.protobuf_path, (unsigned long long)profile.scopes);
    if (zprof_profiler_snapshot(profiler, &profile) != ZPROF_WRONG_STATE || profile.protobuf_path != NULL) {
        return failed("snapshot of what does not run");
    }
    zprof_profiler_free(profiler);
    return 0;
}
