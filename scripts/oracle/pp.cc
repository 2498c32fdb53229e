// Runs TSL's post-processing of a single host's XSpace.
// usage: zprof_pp (IN.xplane.pb OUT.xplane.pb START_NS STOP_NS)...
#include "files.h"
#include "xla/tsl/profiler/convert/post_process_single_host_xplane.h"

int main(int argc, char** argv) {
  if (argc < 5 || argc % 4 != 1) {
    std::fprintf(stderr, "usage: %s (IN OUT START_NS STOP_NS)...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i += 4) {
    auto space = oracle::ReadSpace(argv[i]);
    tsl::profiler::PostProcessSingleHostXSpace(&space, std::strtoull(argv[i + 2], nullptr, 10),
                                               std::strtoull(argv[i + 3], nullptr, 10));
    oracle::WriteSpace(argv[i + 1], space);
  }
  return 0;
}
