// Runs TSL's conversion of an XSpace to trace-viewer JSON.
// usage: zprof_tj (IN.xplane.pb OUT.json)...
// Prints how many nanoseconds each took from bytes to bytes: without the files.
#include <chrono>

#include "files.h"

// The wheel exports these functions but has no header for them, so they are
// declared by their symbols. The container is far smaller than this stand-in,
// and any class of more than 16 bytes is returned through a pointer to memory
// of the caller, so its real size does not matter here.
struct TraceContainer {
  alignas(64) unsigned char storage[8192];
};
TraceContainer Convert(const tensorflow::profiler::XSpace& space)
    __asm__("_ZN3tsl8profiler29ConvertXSpaceToTraceContainerERKN10tensorflow8profiler6XSpaceE");
std::string ToJson(const TraceContainer& container)
    __asm__("_ZN3tsl8profiler20TraceContainerToJsonB5cxx11ERKNS0_14TraceContainerE");
void Destroy(TraceContainer* container) __asm__("_ZN3tsl8profiler14TraceContainerD2Ev");

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 != 1) {
    std::fprintf(stderr, "usage: %s (IN OUT)...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i += 2) {
    const std::string bytes = oracle::ReadFile(argv[i]);
    const auto start = std::chrono::steady_clock::now();
    const auto space = oracle::ParseSpace(bytes, argv[i]);
    TraceContainer container = Convert(space);
    const std::string json = ToJson(container);
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    oracle::WriteFile(argv[i + 1], json);
    std::printf("%lld\n", static_cast<long long>(took.count()));
    Destroy(&container);
  }
  return 0;
}
