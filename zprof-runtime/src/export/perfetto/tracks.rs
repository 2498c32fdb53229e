//! The packets that describe tracks: processes, threads, their further lanes, and counters.

use super::encoder::{Encoder, Splice};
use super::names::{Names, Text};
use super::output::text_len;
use crate::Result;
use crate::export::json::names::Rank;
use crate::xspace::window::{Extent, Window};
use crate::xspace::wire::{BYTES, put_bytes, put_key, put_uint, put_varint, wide};

/// By rank: the order of child tracks.
const EXPLICIT_CHILDREN: u64 = 3;

impl Encoder<'_> {
    /// Describes a process, which is called by `prefix` and `name`.
    pub(super) fn process(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        (pid, rank): (u32, u32),
        prefix: &str,
        name: Extent,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let mut fixed = Vec::new();
        put_uint(&mut fixed, 1, u64::from(pid));
        self.named_message(window, 3, &fixed, 6, prefix, name)?;
        put_uint(&mut self.body, 12, u64::from(rank));
        self.end_message(window, &[], 60)
    }

    /// Describes a thread.
    pub(super) fn thread(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        (pid, tid): (u32, u32),
        rank: u32,
        name: Extent,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let mut fixed = Vec::new();
        put_uint(&mut fixed, 1, u64::from(pid));
        put_uint(&mut fixed, 2, u64::from(tid));
        self.named_message(window, 4, &fixed, 5, "", name)?;
        put_uint(&mut self.body, 11, EXPLICIT_CHILDREN);
        put_uint(&mut self.body, 12, u64::from(rank));
        self.end_message(window, &[], 60)
    }

    /// Describes the lane of a thread with this number, from 2.
    pub(super) fn lane(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        parent: u64,
        name: Extent,
        number: u64,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        let len = text_len(window, name)?;
        let suffix = if len == 0 { format!("({number})") } else { format!(" ({number})") };
        put_key(&mut self.body, 2, BYTES);
        put_varint(&mut self.body, len + wide(suffix.len()));
        self.splice(name, len);
        self.body.extend_from_slice(suffix.as_bytes());
        put_uint(&mut self.body, 5, parent);
        put_uint(&mut self.body, 12, number.min(i32::MAX as u64)); // positive
        self.end_message(window, &[], 60)
    }

    /// Describes a counter.
    pub(super) fn counter(
        &mut self,
        window: &mut Window<'_>,
        uuid: u64,
        parent: u64,
        names: &Names,
        name: Text,
        unit: Rank,
    ) -> Result<()> {
        self.begin_message();
        put_uint(&mut self.body, 1, uuid);
        match name {
            Text::Symbol(symbol) => put_bytes(&mut self.body, 2, names.text(symbol)),
            Text::Source(extent) => self.inline_text(window, 2, extent)?,
        }
        put_uint(&mut self.body, 5, parent);
        let mut counter = Vec::new();
        put_bytes(&mut counter, 6, names.text(unit));
        put_bytes(&mut self.body, 8, &counter);
        self.end_message(window, &[], 60)
    }

    fn begin_message(&mut self) {
        self.body.clear();
        self.splices.clear();
    }

    /// A text of the source goes here.
    fn splice(&mut self, text: Extent, len: u64) {
        if len > 0 {
            self.splices.push(Splice { at: self.body.len(), text, len });
        }
    }

    /// A field that is a text of the source.
    fn inline_text(&mut self, window: &mut Window<'_>, field: u32, text: Extent) -> Result<()> {
        let len = text_len(window, text)?;
        put_key(&mut self.body, field, BYTES);
        put_varint(&mut self.body, len);
        self.splice(text, len);
        Ok(())
    }

    /// A field that is a message of `fixed` and, unless it is empty, a name.
    fn named_message(
        &mut self,
        window: &mut Window<'_>,
        field: u32,
        fixed: &[u8],
        name_field: u32,
        prefix: &str,
        name: Extent,
    ) -> Result<()> {
        let name_len = text_len(window, name)?;
        let len = wide(prefix.len()) + name_len;
        let mut head = fixed.to_vec();
        if len > 0 {
            put_key(&mut head, name_field, BYTES);
            put_varint(&mut head, len);
        }
        put_key(&mut self.body, field, BYTES);
        put_varint(&mut self.body, wide(head.len()) + len);
        self.body.extend_from_slice(&head);
        self.body.extend_from_slice(prefix.as_bytes());
        self.splice(name, name_len);
        Ok(())
    }
}
