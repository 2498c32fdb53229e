// Scopes that end by destructors, however their block is left: raii FOLDER. Prints the path of the profile.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zprof.h>

namespace {

struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

int evaluated = 0;

std::string counted(const char *text) {
    evaluated++;
    return text;
}

void fails(int depth) {
    ZPROF_SCOPE_WITH("fails", ZPROF_INT("depth", depth));
    if (depth == 0) {
        throw Failed("as it should");
    }
    fails(depth - 1);
}

template <typename T>
T traced(T value) {
    ZPROF_SCOPE("traced");
    return value;
}

inline int early(int number) {
    ZPROF_SCOPE_WITH("early", ZPROF_STR("text", counted("a temporary").c_str()), ZPROF_BOOL("negative", number < 0));
    if (number < 0) {
        return -1;
    }
    ZPROF_INSTANT("not negative");
    return number;
}

struct Member {
    Member() { ZPROF_SCOPE("constructor"); }
    ~Member() { ZPROF_SCOPE("destructor"); }
};

void work() {
    ZPROF_SCOPE("work");
    Member member;
    try {
        fails(2);
    } catch (const Failed &) {
        ZPROF_INSTANT_WITH("caught", ZPROF_STEP(3));
    }
    early(-1);
    early(1);
    traced(1);
    traced('c');
    zprof_scope begun = {0, nullptr};
    {
        ZPROF_SITE(site, "ended early");
        zprof::Scope scope(&site);
        scope.note(ZPROF_FLOAT("rate", 0.25));
        scope.end();
        scope.end();
        begun = zprof_begin_named(std::string("by name").c_str(), nullptr, 0);
    }
    auto lambda = [](int n) { ZPROF_SCOPE_WITH("lambda", ZPROF_INT("n", n)); };
    lambda(4);
    ZPROF_END(begun);
}

} // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    work();
    if (evaluated != 0) {
        std::fprintf(stderr, "arguments are evaluated though nothing listens\n");
        return 3;
    }
    zprof_options options = ZPROF_OPTIONS_INIT;
    options.repository_path = arguments[1];
    options.unique_session = true;
    options.hostname = "host";
    zprof_profiler *profiler = nullptr;
    if (zprof_profiler_new(&options, &profiler) != ZPROF_OK) {
        return 4;
    }
    ZPROF_SCOPE("before");
    {
        zprof::Scope across(zprof_unheard_(nullptr));
        ZPROF_SCOPE("across the start");
        if (zprof_profiler_start(profiler) != ZPROF_OK) {
            std::fprintf(stderr, "%s\n", zprof_last_error());
            return 5;
        }
    }
    work();
    // The flow goes along, to a thread.
    const uint64_t flow = zprof_flow();
    std::thread receiver;
    {
        ZPROF_SCOPE_WITH("send", ZPROF_SENDS(flow));
        receiver = std::thread([flow] {
            zprof_thread_name("receiver");
            ZPROF_SCOPE_WITH("receive", ZPROF_RECEIVES(flow));
        });
    }
    receiver.join();
    zprof_profile profile = ZPROF_PROFILE_INIT;
    if (zprof_profiler_stop(profiler, &profile) != ZPROF_OK) {
        std::fprintf(stderr, "%s\n", zprof_last_error());
        return 6;
    }
    std::printf("%s\n", profile.protobuf_path);
    zprof_profiler_free(profiler);
    return 0;
}
