// Files for the oracles: whole reads and writes, and XSpaces in a stable byte order.
#ifndef ZPROF_SCRIPTS_ORACLE_FILES_H_
#define ZPROF_SCRIPTS_ORACLE_FILES_H_

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "tsl/profiler/protobuf/xplane.pb.h"

namespace oracle {

[[noreturn]] inline void Fail(const std::string& what, const char* path) {
  std::fprintf(stderr, "failed to %s `%s`\n", what.c_str(), path);
  std::exit(1);
}

inline std::string ReadFile(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Fail("open", path);
  return std::string((std::istreambuf_iterator<char>(in)), {});
}

inline tensorflow::profiler::XSpace ParseSpace(const std::string& bytes, const char* path) {
  tensorflow::profiler::XSpace space;
  if (!space.ParseFromString(bytes)) Fail("parse an XSpace from", path);
  return space;
}

inline tensorflow::profiler::XSpace ReadSpace(const char* path) { return ParseSpace(ReadFile(path), path); }

inline void WriteFile(const char* path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) Fail("write", path);
}

inline void WriteSpace(const char* path, const tensorflow::profiler::XSpace& space) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    space.SerializeToCodedStream(&coded);
  }
  WriteFile(path, bytes);
}

}  // namespace oracle

#endif  // ZPROF_SCRIPTS_ORACLE_FILES_H_
