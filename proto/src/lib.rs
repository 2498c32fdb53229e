//! XSpace and profiler option messages, wire-compatible with TensorFlow's.
