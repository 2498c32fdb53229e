// Runs TSL's conversion of finished TraceMe events into a host plane.
// usage: zprof_hc (IN OUT.xplane.pb SESSION_START_NS)...
// IN holds one event a record, records end with a NUL, so a text may hold line
// breaks: thread id, thread name, start in ns, end in ns, TraceMe text; a tab
// after each of the first four. Records of one thread that follow each other
// are one list, in order.
#include "files.h"
#include "xla/tsl/profiler/backends/cpu/host_tracer_utils.h"
#include "xla/tsl/profiler/backends/cpu/traceme_recorder.h"

namespace {

tsl::profiler::TraceMeRecorder::Events ReadEvents(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) oracle::Fail("open", path);
  tsl::profiler::TraceMeRecorder::Events lists;
  std::string record;
  while (std::getline(in, record, '\0')) {
    std::string field[4];
    size_t at = 0;
    for (auto& text : field) {
      const size_t tab = record.find('\t', at);
      if (tab == std::string::npos) oracle::Fail("find four tabs in a record of", path);
      text = record.substr(at, tab - at);
      at = tab + 1;
    }
    const long long thread = std::atoll(field[0].c_str());
    if (lists.empty() || static_cast<long long>(lists.back().thread.tid) != thread) {
      lists.emplace_back();
      lists.back().thread.tid = thread;
      lists.back().thread.name = field[1];
    }
    lists.back().events.push_back({record.substr(at), std::atoll(field[2].c_str()), std::atoll(field[3].c_str())});
  }
  return lists;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc % 3 != 1) {
    std::fprintf(stderr, "usage: %s (IN OUT SESSION_START_NS)...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i += 3) {
    tensorflow::profiler::XSpace space;
    auto* plane = space.add_planes();
    plane->set_name("/host:CPU");
    tsl::profiler::ConvertCompleteEventsToXPlane(std::strtoull(argv[i + 2], nullptr, 10), ReadEvents(argv[i]), plane);
    oracle::WriteSpace(argv[i + 1], space);
  }
  return 0;
}
