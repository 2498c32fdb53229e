/* Prints what the header says of sizes, places and constants, one a line. */
#include <stdio.h>
#include <string.h>
#include <zprof.h>

#define SIZE(type) printf("%s %zu %zu\n", #type, sizeof(type), alignof_(type))
#define alignof_(type) offsetof(struct { char first; type second; }, second)
#define FIELD(type, field) printf("%s.%s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(((type *)0)->field))
#define CONSTANT(name) printf("%s %lld\n", #name, (long long)(name))

int main(void) {
    SIZE(zprof_site);
    FIELD(zprof_site, name);
    FIELD(zprof_site, module);
    FIELD(zprof_site, file);
    FIELD(zprof_site, cache);
    FIELD(zprof_site, filter);
    FIELD(zprof_site, line);
    FIELD(zprof_site, level);
    SIZE(zprof_value);
    SIZE(zprof_arg);
    FIELD(zprof_arg, key);
    FIELD(zprof_arg, value);
    FIELD(zprof_arg, kind);
    FIELD(zprof_arg, length);
    SIZE(zprof_scope);
    FIELD(zprof_scope, id);
    FIELD(zprof_scope, site);
    SIZE(zprof_options);
    FIELD(zprof_options, size);
    FIELD(zprof_options, repository_path);
    FIELD(zprof_options, session_id);
    FIELD(zprof_options, hostname);
    FIELD(zprof_options, plugin);
    FIELD(zprof_options, directives);
    FIELD(zprof_options, filter_mask);
    FIELD(zprof_options, max_buffer_bytes);
    FIELD(zprof_options, prefault_bytes);
    FIELD(zprof_options, keep_last_ns);
    FIELD(zprof_options, keep_last_bytes);
    FIELD(zprof_options, host_tracer_level);
    FIELD(zprof_options, device_tracer_level);
    FIELD(zprof_options, python_tracer_level);
    FIELD(zprof_options, unique_session);
    FIELD(zprof_options, must_have_plugin);
    FIELD(zprof_options, no_hlo);
    FIELD(zprof_options, reserved);
    SIZE(zprof_profile);
    FIELD(zprof_profile, size);
    FIELD(zprof_profile, protobuf_path);
    FIELD(zprof_profile, perfetto_path);
    FIELD(zprof_profile, warnings);
    FIELD(zprof_profile, warning_count);
    FIELD(zprof_profile, scopes);
    FIELD(zprof_profile, threads);
    FIELD(zprof_profile, dropped_scopes);
    FIELD(zprof_profile, duration_ns);
    SIZE(zprof_status);
    CONSTANT(ZPROF_CRITICAL);
    CONSTANT(ZPROF_INFO);
    CONSTANT(ZPROF_VERBOSE);
    CONSTANT(ZPROF_KIND_NONE);
    CONSTANT(ZPROF_KIND_BOOL);
    CONSTANT(ZPROF_KIND_INT);
    CONSTANT(ZPROF_KIND_UINT);
    CONSTANT(ZPROF_KIND_FLOAT);
    CONSTANT(ZPROF_KIND_TEXT);
    CONSTANT(ZPROF_KIND_SENDS);
    CONSTANT(ZPROF_KIND_RECEIVES);
    CONSTANT(ZPROF_MOST_ARGS);
    CONSTANT(ZPROF_UNTIL_NUL);
    CONSTANT(ZPROF_OK);
    CONSTANT(ZPROF_ALREADY_ACTIVE);
    CONSTANT(ZPROF_WRONG_STATE);
    CONSTANT(ZPROF_INVALID_INPUT);
    CONSTANT(ZPROF_INVALID_DATA);
    CONSTANT(ZPROF_IO);
    CONSTANT(ZPROF_PLUGIN);
    CONSTANT(ZPROF_UNSUPPORTED);
    CONSTANT(ZPROF_INTERNAL);
    CONSTANT(ZPROF_VERSION_MAJOR);
    CONSTANT(ZPROF_VERSION_MINOR);
    CONSTANT(ZPROF_VERSION_PATCH);
    printf("ZPROF_VERSION %s\n", ZPROF_VERSION);

    /* The bytes of the default options; no padding is in them. */
    const zprof_options options = ZPROF_OPTIONS_INIT;
    unsigned char bytes[sizeof options];
    memcpy(bytes, &options, sizeof options);
    printf("ZPROF_OPTIONS_INIT ");
    for (size_t n = 0; n < sizeof bytes; n++) {
        printf("%02x", bytes[n]);
    }
    printf("\n");
    return 0;
}
