/* Everything that a program may do wrong: wrong FOLDER. Prints what came of it, call by call. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zprof.h>

static void say(const char *what, zprof_status status) {
    printf("%s: %d %s\n", what, (int)status, status == ZPROF_OK ? "" : zprof_last_error());
}

static void *end_there(void *context) {
    return zprof_end(*(zprof_scope *)context) ? context : NULL;
}

static void *begin_there(void *context) {
    ZPROF_SITE(site, "left open");
    zprof_thread_name("a name that is longer than the system's");
    *(zprof_scope *)context = zprof_begin(&site, NULL, 0);
    return NULL;
}

static void in_thread(void *(*run)(void *), void *context, void **result) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, context) != 0) {
        abort();
    }
    pthread_join(thread, result);
}

static void sessions(const char *folder) {
    zprof_options options = ZPROF_OPTIONS_INIT;
    zprof_profiler *profiler = (zprof_profiler *)&options;
    options.repository_path = folder;
    say("no place", zprof_profiler_new(&options, NULL));
    options.size = 3;
    say("size 3", zprof_profiler_new(&options, &profiler));
    printf("NULL then: %d\n", profiler == NULL);
    options.size = sizeof options;
    options.session_id = "no \xff UTF-8";
    say("session_id", zprof_profiler_new(&options, &profiler));
    options.session_id = "a/../b";
    say("path as session_id", zprof_profiler_new(&options, &profiler));
    say("its start", zprof_profiler_start(profiler));
    zprof_profiler_free(profiler);
    options.session_id = NULL;
    options.hostname = "node?";
    say("hostname", zprof_profiler_new(&options, &profiler));
    say("its start", zprof_profiler_start(profiler));
    zprof_profiler_free(profiler);
    options.hostname = NULL;
    options.max_buffer_bytes = 1;
    say("max_buffer_bytes", zprof_profiler_new(&options, &profiler));
    options.max_buffer_bytes = 0;
    options.plugin = "/nowhere/plugin.so";
    const zprof_status plugin = zprof_profiler_new(&options, &profiler);
    printf("plugin: %d\n", plugin == ZPROF_PLUGIN || plugin == ZPROF_UNSUPPORTED);
    say("start of NULL", zprof_profiler_start(NULL));
    say("stop of NULL", zprof_profiler_stop(NULL, NULL));
    printf("running: %d\n", zprof_profiler_is_running(NULL));
    zprof_profiler_free(NULL);
}

static void scopes(void) {
    ZPROF_SITE(site, "site");
    ZPROF_SITE(nameless, NULL);
    const zprof_scope none = {0, NULL};
    const zprof_scope made_up = {12345, &site};
    printf("ends without begin: %d %d\n", zprof_end(none), zprof_end(made_up));
    printf("NULL sites: %d %d\n", (int)zprof_begin(NULL, NULL, 3).id, (int)zprof_begin(&nameless, NULL, 3).id);
    zprof_instant(NULL, NULL, 1);
    zprof_counter(NULL, ZPROF_INT("value", 1));
    printf("NULL names: %d %d\n", (int)zprof_begin_named(NULL, NULL, 0).id, zprof_thread_name(NULL));

    zprof_scope scope = zprof_begin(&site, NULL, 1);
    bool first = zprof_end(scope), second = zprof_end(scope);
    printf("ends: %d %d\n", first, second);

    /* Another thread's. */
    scope = zprof_begin(&site, NULL, 0);
    void *result = &scope;
    in_thread(end_there, &scope, &result);
    first = zprof_end(scope);
    printf("end elsewhere: %d, then here: %d\n", result != NULL, first);
    in_thread(begin_there, &scope, NULL);
    printf("end of what a thread left open: %d\n", zprof_end(scope));

    /* Out of order. */
    ZPROF_SITE(outer, "outer");
    ZPROF_SITE(inner, "inner");
    const zprof_scope one = zprof_begin(&outer, NULL, 0), two = zprof_begin(&inner, NULL, 0);
    first = zprof_end(one);
    second = zprof_end(two);
    printf("out of order: %d %d\n", first, second);

    /* Deeper than usual, and every third ends before those inside it. */
    enum { DEPTH = 100 };
    zprof_scope deep[DEPTH];
    int ended = 0, again = 0;
    for (int n = 0; n < DEPTH; n++) {
        const zprof_arg arg = ZPROF_INT("n", n);
        deep[n] = zprof_begin(&inner, &arg, 1);
    }
    for (int n = 0; n < DEPTH; n += 3) {
        zprof_note(deep[n], ZPROF_BOOL("third", true));
        ended += zprof_end(deep[n]);
    }
    for (int n = DEPTH - 1; n >= 0; n--) {
        ended += zprof_end(deep[n]);
        again += zprof_end(deep[n]);
    }
    printf("deep: %d ended, %d again\n", ended, again);

    /* Arguments that are none. */
    const zprof_arg odd[] = {
        ZPROF_INT(NULL, 1),
        ZPROF_STR("null", NULL),
        {"kind", {7}, 99, 0},
        {"none", {7}, ZPROF_KIND_NONE, 0},
        ZPROF_STR("bad \xff", "\xc3\x28 and \xff"),
        ZPROF_STRN("nul", "a\0b", 3),
        ZPROF_STRN("empty", "", 0),
    };
    zprof_end(zprof_begin(&site, odd, sizeof odd / sizeof *odd));

    /* More than there may be. */
    static char keys[40][16];
    zprof_arg many[40];
    for (int n = 0; n < 40; n++) {
        snprintf(keys[n], sizeof keys[n], "k%d", n);
        many[n] = ZPROF_INT(keys[n], n);
    }
    zprof_end(zprof_begin(&site, many, 40));

    /* One site, but keys of all kinds: the last have none left. */
    static char changing[80][32];
    for (int n = 0; n < 80; n++) {
        snprintf(changing[n], sizeof changing[n], "changing %d", n);
        const zprof_arg arg = ZPROF_INT(changing[n], n);
        zprof_end(zprof_begin(&site, &arg, 1));
    }

    /* Names of all kinds. */
    for (int n = 0; n < 4200; n++) {
        char name[32];
        snprintf(name, sizeof name, "name %d", n);
        const zprof_arg arg = ZPROF_INT("n", n);
        zprof_end(zprof_begin_named(name, &arg, 1));
    }
    int notes = 0;
    scope = zprof_begin(&site, NULL, 0);
    for (int n = 0; n < 4200; n++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", n);
        notes += zprof_note(scope, ZPROF_INT(key, n));
    }
    printf("notes: %d; none of NULL: %d, of no value: %d", notes, zprof_note(scope, ZPROF_INT(NULL, 1)),
           zprof_note(scope, ZPROF_STR("key 0", NULL)));
    zprof_end(scope);
    printf(", of an ended one: %d, of none: %d\n", zprof_note(scope, ZPROF_INT("key 0", 1)),
           zprof_note(none, ZPROF_INT("key 0", 1)));
    zprof_counter(&site, ZPROF_STR("value", "no number"));
}

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("no error yet: '%s'\n", zprof_last_error());
    sessions(arguments[1]);

    zprof_options options = ZPROF_OPTIONS_INIT;
    options.repository_path = arguments[1];
    zprof_profiler *profiler = NULL, *second = NULL;
    say("new", zprof_profiler_new(&options, &profiler));
    zprof_profile profile;
    memset(&profile, 0x55, sizeof profile);
    profile.size = 1;
    say("size 1", zprof_profiler_stop(profiler, &profile));
    profile.size = offsetof(zprof_profile, scopes);
    say("stop of what does not run", zprof_profiler_stop(profiler, &profile));
    printf("%d %d %llx\n", profile.protobuf_path == NULL, profile.warnings == NULL, (unsigned long long)profile.scopes);
    say("start", zprof_profiler_start(profiler));
    say("start again", zprof_profiler_start(profiler));
    say("new", zprof_profiler_new(NULL, &second));
    say("a second one", zprof_profiler_start(second));
    zprof_profiler_free(second);
    printf("running: %d\n", zprof_profiler_is_running(profiler));
    scopes();
    profile.size = sizeof profile;
    say("stop", zprof_profiler_stop(profiler, &profile));
    for (size_t n = 0; n < profile.warning_count; n++) {
        const char *rest = strstr(profile.warnings[n], " or was");
        printf("warning: %.*s\n", rest == NULL ? 200 : (int)(rest - profile.warnings[n]), profile.warnings[n]);
    }
    zprof_profiler_free(profiler);
    return 0;
}
