/* zprof.h: records what the C, C++ and Zig parts of a program do, on one timeline with its Rust parts.
 *
 * C99 or C++11, with nothing but the standard headers. docs/c.md is the chapter that goes with it. In short:
 *
 *     void decode(int64_t tokens) {
 *         ZPROF_SCOPE_WITH("decode", ZPROF_INT("tokens", tokens));  // open to the end of the block
 *         ...
 *     }
 *
 * While nothing listens, a macro is two loads and a branch, and its arguments are not evaluated: keep side effects out of
 * them. The functions may be called at any time and from any thread, but not from signal handlers. None of them throws,
 * aborts, or fails on NULL, on text that is no UTF-8 (which is repaired), or on ends without a begin; each says what it
 * does then.
 *
 * Each copy of zprof in a process has a recorder and a session of its own: link one, and let libraries that are loaded later
 * take its symbols.
 *
 * Define ZPROF_DISABLE before the include, and the macros are nothing: the library need not be linked then.
 */
#ifndef ZPROF_H
#define ZPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <initializer_list>
#endif

/* The version of this header; zprof_version() has that of the library. */
#define ZPROF_VERSION "0.1.0"
#define ZPROF_VERSION_MAJOR 0
#define ZPROF_VERSION_MINOR 1
#define ZPROF_VERSION_PATCH 0

#if defined(_WIN32) && !defined(ZPROF_STATIC)
#define ZPROF_API __declspec(dllimport)
#else
#define ZPROF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sites: the places of a program that are recorded ---- */

/* How much detail a scope is. A session of level N records what is at most N; it has 3 unless it says otherwise. */
enum {
    ZPROF_CRITICAL = 1,
    ZPROF_INFO = 2,
    ZPROF_VERBOSE = 3
};

/* A place in the source. It must stay for good, as a static does, and so must its texts. The macros make one each. */
typedef struct zprof_site {
    const char *name;   /* what its scopes are called */
    const char *module; /* the part of the program that it belongs to, or NULL */
    const char *file;   /* or NULL */
    void *cache;        /* zprof's own: begins as NULL */
    uint64_t filter;    /* ZPROF_FILTER(n) bits, or 0 for none */
    uint32_t line;
    uint32_t level; /* ZPROF_CRITICAL and so on; 0 is as ZPROF_CRITICAL, and what is above 3 is as ZPROF_VERBOSE */
} zprof_site;

/* A scope of filter N is recorded only by sessions whose mask has bit N. */
#define ZPROF_FILTER(n) (UINT64_C(1) << (n))

/* What sites call their module: set it for each library, before the include or with -D. */
#ifndef ZPROF_MODULE
#define ZPROF_MODULE "c"
#endif

/* ---- Arguments: typed metadata of scopes and instants ---- */

enum {
    ZPROF_KIND_NONE = 0, /* left out */
    ZPROF_KIND_BOOL = 1, /* value.u, 0 or not */
    ZPROF_KIND_INT = 2,
    ZPROF_KIND_UINT = 3,
    ZPROF_KIND_FLOAT = 4,
    ZPROF_KIND_TEXT = 5,
    ZPROF_KIND_SENDS = 6,   /* value.u is a flow that begins here */
    ZPROF_KIND_RECEIVES = 7 /* value.u is a flow that ends here */
};

/* Most arguments of one scope; what is beyond is left out. */
#define ZPROF_MOST_ARGS 32
/* Length of a text that ends at a NUL. */
#define ZPROF_UNTIL_NUL UINT32_MAX

typedef union zprof_value {
    int64_t i;
    uint64_t u;
    double f;
    const char *s; /* copied; NULL leaves the argument out */
} zprof_value;

/* An argument. Keys are literals, or stay as they are for as long: a key is known again by its address. Those that begin with '_'
 * have meanings of XProf's. An argument with the key NULL, or of a kind that is not listed, is left out. */
typedef struct zprof_arg {
    const char *key;
    zprof_value value;
    uint32_t kind;
    uint32_t length; /* of a text, in bytes, or ZPROF_UNTIL_NUL */
} zprof_arg;

#define ZPROF_BOOL(key, value) zprof_arg_u_(key, ZPROF_KIND_BOOL, (value) ? 1 : 0)
#define ZPROF_INT(key, value) zprof_arg_i_(key, value)
#define ZPROF_UINT(key, value) zprof_arg_u_(key, ZPROF_KIND_UINT, value)
#define ZPROF_FLOAT(key, value) zprof_arg_f_(key, value)
#define ZPROF_STR(key, text) zprof_arg_s_(key, text, ZPROF_UNTIL_NUL)
#define ZPROF_STRN(key, text, length) zprof_arg_s_(key, text, length)
/* The scope hands something on to those that receive this flow, which is what zprof_flow() gave; or it takes it. */
#define ZPROF_SENDS(flow) zprof_arg_u_("_p", ZPROF_KIND_SENDS, flow)
#define ZPROF_RECEIVES(flow) zprof_arg_u_("_c", ZPROF_KIND_RECEIVES, flow)
/* The scope is a step of its own, such as one of a training loop, or the start of a step without a number. */
#define ZPROF_STEP(number) ZPROF_ROOT(), zprof_arg_i_("step_num", number)
#define ZPROF_ROOT() zprof_arg_u_("_r", ZPROF_KIND_BOOL, 1)

/* ---- Recording ---- */

/* An open scope: a number of this thread's, 0 where nothing listened when it was opened. */
typedef struct zprof_scope {
    uint64_t id;
    zprof_site *site;
} zprof_scope;

/* Leads to the word that says who listens: its low half is 0 while nobody does. Only for the macros. */
extern ZPROF_API const uint64_t *const zprof_state;

/* Opens a scope on the calling thread. What must be given to zprof_end is returned, whether or not anything listens. With a
 * site that is NULL or has no name, nothing is opened. */
ZPROF_API zprof_scope zprof_begin(zprof_site *site, const zprof_arg *args, size_t count);

/* The same with a name that is known only now, without a site. zprof keeps the first 4096 different names of a program; later
 * ones are all called "(more names)" and have theirs as the argument "name". */
ZPROF_API zprof_scope zprof_begin_named(const char *name, const zprof_arg *args, size_t count);

/* Ends a scope. False, and nothing happens, if it is not open on this thread: it has ended already, or is another thread's.
 * Scopes may end in any order. One that never ends is shown up to the end of what is around it, as `leaked` or
 * `unfinished`. */
ZPROF_API bool zprof_end(zprof_scope scope);

/* Adds an argument to an open scope, which keeps it if it is recorded. False if the scope is not open on this thread, if the
 * argument cannot be kept, or if the program has used 4096 different keys in this way. */
ZPROF_API bool zprof_note(zprof_scope scope, zprof_arg arg);

/* Records that something happens now. */
ZPROF_API void zprof_instant(zprof_site *site, const zprof_arg *args, size_t count);

/* Records the value that a counter has now. The argument is a ZPROF_INT, ZPROF_UINT or ZPROF_FLOAT whose key is the unit, such
 * as "value" or "MiB"; others are left out. */
ZPROF_API void zprof_counter(zprof_site *site, zprof_arg value);

/* A new flow, for ZPROF_SENDS and ZPROF_RECEIVES: an arrow from one scope to another, whatever their threads. */
ZPROF_API uint64_t zprof_flow(void);

/* Names the calling thread, from now on: its line in profiles and the thread in live tools, where the last name is shown whole;
 * and for debuggers, where Linux keeps 15 bytes. False for NULL, and where the system does not take the name, as that of the
 * main thread, which is the program's; profiles and tools have it then all the same. */
ZPROF_API bool zprof_thread_name(const char *name);

/* ---- Sessions ---- */

/* What a call came to; zprof_last_error() says more. */
typedef int32_t zprof_status;
enum {
    ZPROF_OK = 0,
    ZPROF_ALREADY_ACTIVE = 1, /* another profiler of this process is running */
    ZPROF_WRONG_STATE = 2,    /* the call does not fit the state of the profiler */
    ZPROF_INVALID_INPUT = 3,  /* an argument or option cannot work, such as a NULL profiler */
    ZPROF_INVALID_DATA = 4,
    ZPROF_IO = 5,          /* a file or folder could not be read or written */
    ZPROF_PLUGIN = 6,      /* an accelerator's plugin cannot be used, or refused a call */
    ZPROF_UNSUPPORTED = 7, /* the platform or the build cannot do this */
    ZPROF_INTERNAL = 8     /* a fault of zprof's own */
};

/* Options of a session. Begin with ZPROF_OPTIONS_INIT and change what you need; later versions add fields at the end, and
 * `size` tells them from ours. What the options mean is in the documentation of Rust's ProfilerOptions. */
typedef struct zprof_options {
    size_t size;                 /* sizeof(zprof_options) */
    const char *repository_path; /* the log directory; NULL is /tmp/xprof, or /tmp/xprof-<uid> where that is another user's */
    const char *session_id;      /* name of the run's folder below it, which Windows too can have; NULL is "profiling" */
    const char *hostname;        /* host part of the file names, which Windows too can have; NULL is "profiling" */
    const char *plugin;          /* PJRT plugin: NULL is none, "auto" the one that is found, else the path of its library */
    const char *directives;      /* levels of modules, "my_lib=verbose,other=off"; NULL is none */
    uint64_t filter_mask;        /* UINT64_MAX takes all scopes */
    uint64_t max_buffer_bytes;   /* 0 is 256 MiB */
    uint64_t prefault_bytes;     /* UINT64_MAX is 32 MiB */
    uint64_t keep_last_ns;       /* keeps the records of the last so many ns; 0 keeps all */
    uint64_t keep_last_bytes;    /* the same in bytes of each thread; 0 keeps all */
    uint32_t host_tracer_level;
    uint32_t device_tracer_level;
    uint32_t python_tracer_level;
    bool unique_session;   /* a dated folder of its own, whatever the session_id */
    bool must_have_plugin; /* a plugin that cannot profile is an error, not a warning */
    bool no_hlo;           /* leave HLO modules out */
    bool reserved;
} zprof_options;

#define ZPROF_OPTIONS_INIT \
    { sizeof(zprof_options), NULL, NULL, NULL, NULL, NULL, UINT64_MAX, 0, UINT64_MAX, 0, 0, 3, 3, 1, false, false, false, false }

/* What a session has left. The texts are the profiler's: they last until its next stop or snapshot, or until it is freed. */
typedef struct zprof_profile {
    size_t size;               /* sizeof(zprof_profile), as ZPROF_PROFILE_INIT has it */
    const char *protobuf_path; /* the XSpace; NULL if no session was running */
    const char *perfetto_path; /* the trace-viewer JSON; NULL if ZPROF_JSON=off, or, with a warning, if only the XSpace could be written */
    const char *const *warnings;
    size_t warning_count;
    uint64_t scopes;
    uint64_t threads;
    uint64_t dropped_scopes;
    uint64_t duration_ns;
} zprof_profile;

#define ZPROF_PROFILE_INIT \
    { sizeof(zprof_profile), NULL, NULL, NULL, 0, 0, 0, 0, 0 }

typedef struct zprof_profiler zprof_profiler;

/* Makes a profiler; NULL options are ZPROF_OPTIONS_INIT. It records nothing before it is started. On an error *profiler is
 * NULL. */
ZPROF_API zprof_status zprof_profiler_new(const zprof_options *options, zprof_profiler **profiler);

/* Starts a session. A process has one at a time, whoever started it. */
ZPROF_API zprof_status zprof_profiler_start(zprof_profiler *profiler);

/* Stops the session, writes its files and says in *profile, unless that is NULL, what there is; where none was running, all of
 * it is NULL and 0. After ZPROF_IO the session is kept, and another stop tries again. */
ZPROF_API zprof_status zprof_profiler_stop(zprof_profiler *profiler, zprof_profile *profile);

/* Writes what the session holds to a run's folder of its own, and lets the session go on; says in *profile, unless that is
 * NULL, where. With keep_last_ns or keep_last_bytes that is the latest part. */
ZPROF_API zprof_status zprof_profiler_snapshot(zprof_profiler *profiler, zprof_profile *profile);

/* Profiles the program from here to its end if the environment variable ZPROF asks for it, as `ZPROF=1 ./program` does; says in
 * *profiling, unless that is NULL, whether it does. Call it first in main. docs/profiling.md has a chapter, "From outside". */
ZPROF_API zprof_status zprof_init_from_env(bool *profiling);

/* Whether it is recording; false for NULL. */
ZPROF_API bool zprof_profiler_is_running(const zprof_profiler *profiler);

/* Frees a profiler, or does nothing with NULL. One that is running is stopped and writes its files. */
ZPROF_API void zprof_profiler_free(zprof_profiler *profiler);

/* What went wrong in the last call of this thread that returned a status other than ZPROF_OK, as a sentence; never NULL. It
 * lasts until the next such call. */
ZPROF_API const char *zprof_last_error(void);

/* The version of the library, such as "0.1.0". */
ZPROF_API const char *zprof_version(void);

/* Whether the recorder is compiled into the library; where it is not, nothing is ever recorded and start and stop do
 * nothing. */
ZPROF_API bool zprof_enabled(void);

/* ---- What the macros are made of ---- */

static inline zprof_arg zprof_arg_i_(const char *key, int64_t value) {
    zprof_arg arg;
    arg.key = key;
    arg.value.i = value;
    arg.kind = ZPROF_KIND_INT;
    arg.length = 0;
    return arg;
}

static inline zprof_arg zprof_arg_u_(const char *key, uint32_t kind, uint64_t value) {
    zprof_arg arg;
    arg.key = key;
    arg.value.u = value;
    arg.kind = kind;
    arg.length = 0;
    return arg;
}

static inline zprof_arg zprof_arg_f_(const char *key, double value) {
    zprof_arg arg;
    arg.key = key;
    arg.value.f = value;
    arg.kind = ZPROF_KIND_FLOAT;
    arg.length = 0;
    return arg;
}

static inline zprof_arg zprof_arg_s_(const char *key, const char *text, size_t length) {
    zprof_arg arg;
    arg.key = key;
    arg.value.u = 0;
    arg.value.s = text;
    arg.kind = ZPROF_KIND_TEXT;
    arg.length = length < ZPROF_UNTIL_NUL ? (uint32_t)length : ZPROF_UNTIL_NUL;
    return arg;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#define ZPROF_JOIN_2_(a, b) a##b
#define ZPROF_JOIN_(a, b) ZPROF_JOIN_2_(a, b)
#define ZPROF_UNIQUE_(what) ZPROF_JOIN_(what, __LINE__)

#if defined(__GNUC__)
#define ZPROF_UNUSED_ __attribute__((unused))
#define ZPROF_CLEANUP_ __attribute__((unused, cleanup(zprof_close_)))
#define ZPROF_RARELY_(condition) __builtin_expect(!!(condition), 0)
#else
#define ZPROF_UNUSED_
#define ZPROF_RARELY_(condition) (condition)
#endif

/* Whether a session or a tool listens to anything. */
static inline bool zprof_listening(void) {
#if defined(ZPROF_DISABLE)
    return false;
#elif defined(__GNUC__)
    return ZPROF_RARELY_((uint32_t)__atomic_load_n(zprof_state, __ATOMIC_RELAXED) != 0);
#else
    return (uint32_t) * (const volatile uint64_t *)zprof_state != 0;
#endif
}

static inline zprof_scope zprof_unheard_(zprof_site *site) {
    zprof_scope scope;
    scope.id = 0;
    scope.site = site;
    return scope;
}

static inline bool zprof_finish_(zprof_scope scope) {
#if defined(ZPROF_DISABLE)
    (void)scope;
    return true;
#else
    /* A scope that opened unheard may end heard. */
    return scope.id != 0 || zprof_listening() ? zprof_end(scope) : true;
#endif
}

/* Called by the compiler where the block of a ZPROF_SCOPE ends. */
static inline void zprof_close_(const zprof_scope *scope) {
    (void)zprof_finish_(*scope);
}

/* ---- Macros ---- */

/* A static site of that name, for the macros that end in _OF and for the functions: ZPROF_SITE(site, "name");
 * ZPROF_SITE_AT(site, "name", ZPROF_VERBOSE, ZPROF_FILTER(3)); */
#define ZPROF_SITE(variable, name) ZPROF_SITE_AT(variable, name, ZPROF_CRITICAL, 0)
#define ZPROF_SITE_AT(variable, name, level, filter) \
    ZPROF_UNUSED_ static zprof_site variable = {name, ZPROF_MODULE, __FILE__, NULL, filter, __LINE__, level}

/* A constant where the macros are nothing, so that what they call is not even referred to. */
#if defined(ZPROF_DISABLE)
#define ZPROF_LISTENING_() false
#else
#define ZPROF_LISTENING_() zprof_listening()
#endif

#if defined(__cplusplus)
#define ZPROF_CALL_(function, site, ...) zprof::detail::function(site, {__VA_ARGS__})
#else
#define ZPROF_CALL_(function, site, ...) \
    function(site, (zprof_arg[]){__VA_ARGS__}, sizeof((zprof_arg[]){__VA_ARGS__}) / sizeof(zprof_arg))
#endif

#define ZPROF_BEGIN_OF(site) (ZPROF_LISTENING_() ? zprof_begin(site, NULL, 0) : zprof_unheard_(site))
#define ZPROF_BEGIN_OF_WITH(site, ...) \
    (ZPROF_LISTENING_() ? ZPROF_CALL_(zprof_begin, site, __VA_ARGS__) : zprof_unheard_(site))
#define ZPROF_NOTE(scope, arg) (ZPROF_LISTENING_() && (scope).id != 0 ? (void)zprof_note(scope, arg) : (void)0)
#define ZPROF_INSTANT_OF(site) (ZPROF_LISTENING_() ? zprof_instant(site, NULL, 0) : (void)0)
#define ZPROF_INSTANT_OF_WITH(site, ...) \
    (ZPROF_LISTENING_() ? ZPROF_CALL_(zprof_instant, site, __VA_ARGS__) : (void)0)
#define ZPROF_COUNTER_OF(site, value) (ZPROF_LISTENING_() ? zprof_counter(site, value) : (void)0)

/* Ends what ZPROF_BEGIN_OF opened: zprof_scope scope = ZPROF_BEGIN_OF(&site); ... ZPROF_END(scope); */
#define ZPROF_END(scope) ((void)zprof_finish_(scope))

/* ZPROF_INSTANT("name"); ZPROF_INSTANT_WITH("name", ZPROF_INT("n", n), ZPROF_STR("s", s)); */
#define ZPROF_INSTANT(name) \
    do { \
        ZPROF_SITE(zprof_site_, name); \
        ZPROF_INSTANT_OF(&zprof_site_); \
    } while (0)
#define ZPROF_INSTANT_WITH(name, ...) \
    do { \
        ZPROF_SITE(zprof_site_, name); \
        ZPROF_INSTANT_OF_WITH(&zprof_site_, __VA_ARGS__); \
    } while (0)

/* ZPROF_COUNTER("queue", ZPROF_INT("value", length)); */
#define ZPROF_COUNTER(name, value) \
    do { \
        ZPROF_SITE(zprof_site_, name); \
        ZPROF_COUNTER_OF(&zprof_site_, value); \
    } while (0)

#if defined(__cplusplus)

namespace zprof {

/* A scope that ends with the block that it is declared in, however that is left. Stays on its thread. */
class Scope {
  public:
    explicit Scope(zprof_scope scope) noexcept : scope_(scope) {}
    explicit Scope(zprof_site *site) noexcept : scope_(ZPROF_BEGIN_OF(site)) {}
    ~Scope() { zprof_close_(&scope_); }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

    /* Adds an argument, such as one that is known only now. */
    void note(zprof_arg arg) noexcept { ZPROF_NOTE(scope_, arg); }

    /* Ends it now. */
    void end() noexcept {
        ZPROF_END(scope_);
        scope_ = zprof_unheard_(nullptr);
    }

  private:
    zprof_scope scope_;
};

namespace detail {
inline zprof_scope zprof_begin(zprof_site *site, std::initializer_list<zprof_arg> args) {
    return ::zprof_begin(site, args.begin(), args.size());
}
inline void zprof_instant(zprof_site *site, std::initializer_list<zprof_arg> args) {
    ::zprof_instant(site, args.begin(), args.size());
}
} // namespace detail

} // namespace zprof

#define ZPROF_SCOPE_OF(site) const zprof::Scope ZPROF_UNIQUE_(zprof_scope_)(site)
#define ZPROF_SCOPE_OF_WITH(site, ...) \
    const zprof::Scope ZPROF_UNIQUE_(zprof_scope_)(ZPROF_BEGIN_OF_WITH(site, __VA_ARGS__))

#elif defined(ZPROF_CLEANUP_)

#define ZPROF_SCOPE_OF(site) ZPROF_CLEANUP_ const zprof_scope ZPROF_UNIQUE_(zprof_scope_) = ZPROF_BEGIN_OF(site)
#define ZPROF_SCOPE_OF_WITH(site, ...) \
    ZPROF_CLEANUP_ const zprof_scope ZPROF_UNIQUE_(zprof_scope_) = ZPROF_BEGIN_OF_WITH(site, __VA_ARGS__)

#endif

/* A scope from here to the end of the enclosing block, by name or of a site; in C for GCC and clang. These are two
 * declarations: they need braces around them after an `if`. */
#define ZPROF_SCOPE(name) \
    ZPROF_SITE(ZPROF_UNIQUE_(zprof_site_), name); \
    ZPROF_SCOPE_OF(&ZPROF_UNIQUE_(zprof_site_))
#define ZPROF_SCOPE_WITH(name, ...) \
    ZPROF_SITE(ZPROF_UNIQUE_(zprof_site_), name); \
    ZPROF_SCOPE_OF_WITH(&ZPROF_UNIQUE_(zprof_site_), __VA_ARGS__)

#endif /* ZPROF_H */
