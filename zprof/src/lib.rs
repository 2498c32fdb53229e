//! zprof shows where time goes in programs that drive accelerators.
