//! There is no place here that all copies find. Two that write one run learn of each other by its lock.

pub(super) fn notes() -> Vec<String> {
    Vec::new()
}

pub(super) fn note(_line: &str) {}

pub(super) fn object_of(_place: *const u8) -> Option<String> {
    None
}
