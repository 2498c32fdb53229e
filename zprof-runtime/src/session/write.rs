//! Writing a session that is over: its files are made whole under temporary names, and then named together.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use super::Unwritten;
use super::device::Piece;
use super::files::{New, Published};
use crate::error::{Error, Result};
use crate::export::{JsonOptions, write_json};
use crate::folder::{self, Draft, Folder};

impl Unwritten {
    /// Writes the files. After an error nothing of an older profile is lost, and the session can be written again.
    ///
    /// The XSpace is what matters: the other files can be made of it, or are for the maker of a plugin. So where one of them
    /// cannot be written, as on a disk that is full, the XSpace is given its name all the same, and a warning says what is
    /// missing.
    pub(super) fn write(&mut self) -> Result<()> {
        let started = Instant::now();
        // A limit of file sizes is no reason to end the program.
        let _held = folder::SizeSignalHeld::new();
        let folder = self.files.hold()?;
        let (protobuf, json) = (self.files.protobuf(), self.files.json());
        self.files.refuse_protected(&folder)?;
        // What killed processes have left takes room; what cannot be removed is in nobody's way.
        let _ = folder::remove_abandoned(&folder);
        let mut xspace = self.write_xspace(&folder, &protobuf)?;
        let mut warnings = self.files.take_notes();
        let broken = if self.broken { self.write_broken(&folder, &mut warnings) } else { None };
        let written = Instant::now();
        let mut made = if self.trace_json { make_json(&folder, xspace.file(), &json) } else { Ok(None) };
        let has_older = folder.status(name(&protobuf)).is_ok_and(|old| old.is_some());
        let new = New { xspace, json: made.as_mut().ok().and_then(Option::take), broken };
        let Published { xspace: file, json: placed, notes } = self.files.publish(&folder, new)?;
        warnings.extend(notes);
        made = made.and_then(|made| placed.map(|()| made));
        if made.is_err() && has_older {
            // What was replaced has made room.
            made = make_json(&folder, &file, &json);
            if let Some(draft) = made.as_mut().ok().and_then(Option::take) {
                made = self.files.place(draft, &json).map(|_| None);
            }
        }
        self.profile.protobuf_path = protobuf;
        self.profile.perfetto_path = (self.trace_json && made.is_ok()).then_some(json);
        warnings.extend(made.err().map(|error| {
            format!(
                "the profile is in `{}`; only its JSON is missing: {}; `zprof convert` makes it where there is room",
                self.profile.protobuf_path.display(),
                error.told()
            )
        }));
        self.profile.warnings.extend(warnings);
        self.profile.phases.push(("write XSpace", written - started));
        if self.trace_json {
            self.profile.phases.push(("write JSON", written.elapsed()));
        }
        self.pieces.clear();
        self.device = Vec::new();
        Ok(())
    }

    fn write_xspace(&self, folder: &Folder, path: &Path) -> Result<Draft> {
        let device = |range: &Range<usize>| self.device.get(range.clone()).unwrap_or_default();
        let mut pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Own(bytes) => bytes.as_slice(),
            Piece::Device(range) => device(range),
        });
        let written = Draft::create(folder).and_then(|mut draft| {
            // So small that its buffer always fits: pieces are large, or few.
            let mut out = BufWriter::with_capacity(2048, draft.file());
            pieces.try_for_each(|piece| out.write_all(piece))?;
            out.flush()?;
            drop(out);
            draft.sync()?;
            Ok(draft)
        });
        written.map_err(|error| Error::io(format!("failed to write the profile `{}`", path.display()), error))
    }

    /// Keeps what a plugin returned and nobody can read.
    fn write_broken(&self, folder: &Folder, warnings: &mut Vec<String>) -> Option<Draft> {
        let written = Draft::create(folder).and_then(|mut draft| {
            draft.file().write_all(&self.device)?;
            draft.sync()?;
            Ok(draft)
        });
        written
            .map_err(|error| {
                let path = self.files.broken();
                warnings.push(format!("what the plugin returned cannot be kept as `{}`: {error}", path.display()));
            })
            .ok()
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Makes the JSON of an XSpace that is open. It is there until it is taken.
fn make_json(folder: &Folder, xspace: &File, path: &Path) -> Result<Option<Draft>> {
    let failed = |error: io::Error| Error::io(format!("failed to write `{}`", path.display()), error);
    let mut draft = Draft::create(folder).map_err(failed)?;
    write_json(xspace, draft.file(), &JsonOptions::default())
        .map_err(|error| error.context(format_args!("failed to write `{}`", path.display())))?;
    draft.sync().map_err(failed)?;
    Ok(Some(draft))
}
