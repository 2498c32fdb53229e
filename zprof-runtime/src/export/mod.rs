//! Exports: XSpace bytes in, another format out.
