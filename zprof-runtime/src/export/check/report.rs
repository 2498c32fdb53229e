//! Gathers findings: some of each kind with their place, and the number of all.

use std::collections::BTreeMap;
use std::fmt;

use super::{Checked, Finding, FindingKind};

/// Where the check is.
#[derive(Debug, Default)]
pub(super) struct Report {
    max_per_kind: usize,
    counts: BTreeMap<FindingKind, u64>,
    findings: Vec<Finding>,
    /// The plane at hand.
    pub(super) plane: Option<String>,
    /// The line at hand.
    pub(super) line: Option<String>,
    /// The event at hand.
    pub(super) event: Option<u64>,
    pub(super) planes: u64,
    pub(super) lines: u64,
    pub(super) events: u64,
    pub(super) flows_unchecked: bool,
}

impl Report {
    pub(super) fn new(max_per_kind: usize) -> Self {
        Self { max_per_kind, ..Self::default() }
    }

    /// Adds a finding at the place at hand.
    pub(super) fn add(&mut self, kind: FindingKind, at: Option<u64>, message: fmt::Arguments<'_>) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= crate::xspace::wire::wide(self.max_per_kind) {
            let (plane, line) = (self.plane.clone(), self.line.clone());
            self.findings.push(Finding { kind, message: message.to_string(), plane, line, event: self.event, at });
        }
    }

    pub(super) fn has(&self, kind: FindingKind) -> bool {
        self.counts.contains_key(&kind)
    }

    pub(super) fn finish(self) -> Checked {
        let Self { counts, mut findings, planes, lines, events, flows_unchecked, .. } = self;
        findings.sort_by_key(|finding| finding.kind);
        Checked { planes, lines, events, findings, counts: counts.into_iter().collect(), flows_unchecked }
    }
}
