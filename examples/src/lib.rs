//! Programs that people would write with zprof stand in `examples/`; this library is empty.
