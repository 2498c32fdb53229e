//! Copies of this library in one process, such as that of a program and that of a plugin which the program loads. Each has
//! statics of its own, so that none sees the scopes or sessions of another; here they learn of each other.
//!
//! Each copy notes its first session in a place that all copies of the process can find, and reads there which others have had
//! one. The notes stay, so that a copy also learns of one whose session is over or whose library is unloaded.

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere;
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code)] // makes a file in memory, and asks the loader for a path
mod linux;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
use self::elsewhere as system;
#[cfg(any(target_os = "linux", target_os = "android"))]
use self::linux as system;

use crate::os::process_id;

/// Something that each copy has at an address of its own.
static COPY: u8 = 0;

/// A copy that has had a session in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    process: u32,
    /// Address of the copy's own static, which no two copies share.
    copy: usize,
    /// The program or library that the copy is in.
    object: String,
}

impl Note {
    fn own() -> Self {
        let object = system::object_of(&raw const COPY).unwrap_or_default();
        Self { process: process_id(), copy: (&raw const COPY).addr(), object }
    }

    fn line(&self) -> String {
        format!("{} {:x} {}\n", self.process, self.copy, self.object.replace('\n', "?"))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ' ');
        let process = parts.next()?.parse().ok()?;
        let copy = usize::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { process, copy, object: parts.next()?.to_owned() })
    }
}

/// Notes that this copy has a session, unless that is noted.
pub(super) fn announce() {
    let own = Note::own();
    let is_known =
        |text: String| text.lines().filter_map(Note::parse).any(|note| note.copy == own.copy && is_here(&note));
    if !system::notes().into_iter().any(is_known) {
        system::note(&own.line());
    }
}

/// Whether a note is of this process. The child of a fork sees the notes of its parent too, and theirs of one another.
fn is_here(note: &Note) -> bool {
    note.process == process_id()
}

/// The programs and libraries that hold the other copies which have had sessions in this process, each once.
pub(super) fn others() -> Vec<String> {
    others_in(&system::notes(), (&raw const COPY).addr())
}

fn others_in(texts: &[String], own: usize) -> Vec<String> {
    let notes = texts.iter().flat_map(|text| text.lines()).filter_map(Note::parse);
    let mut objects: Vec<String> =
        notes.filter(|note| is_here(note) && note.copy != own).map(|note| note.object).collect();
    objects.sort();
    objects.dedup();
    objects
}

/// What a profile says of the other copies.
pub(super) fn warnings() -> impl Iterator<Item = String> {
    others().into_iter().map(|object| {
        format!(
            "another copy of zprof in this process, in `{object}`, has sessions of its own: its scopes are in its own profiles \
             and not in this one"
        )
    })
}

/// What is said at the start of a session that lasts to the end of the process.
pub(super) fn warnings_of_end() -> impl Iterator<Item = String> {
    others().into_iter().map(|object| {
        format!(
            "another copy of zprof in this process, in `{object}`, has a session of its own: a signal that ends the process \
             may finish that one's profile alone"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_its_process_copy_and_object() {
        let note = Note { process: 7, copy: 0xab, object: "/a b/lib\nx.so".to_owned() };
        assert_eq!(note.line(), "7 ab /a b/lib?x.so\n");
        assert_eq!(Note::parse("7 ab /a b"), Some(Note { process: 7, copy: 0xab, object: "/a b".to_owned() }));
        for line in ["", "7", "7 ab", "x ab o", "7 xy o"] {
            assert_eq!(Note::parse(line), None, "{line}");
        }
    }

    #[test]
    fn others_are_the_other_copies_of_this_process() {
        let here = process_id();
        let text = |process: u32, copy: usize, object: &str| Note { process, copy, object: object.to_owned() }.line();
        let texts = [
            [text(here, 1, "own"), text(here, 2, "b"), text(here ^ 1, 3, "of another process")].concat(),
            [text(here, 3, "a"), text(here, 2, "b"), "rubbish".to_owned()].concat(),
        ];
        assert_eq!(others_in(&texts, 1), ["a", "b"]);
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "android"))] // elsewhere copies leave no notes
    fn a_copy_is_noted_once_and_is_not_another() {
        announce();
        announce();
        let own = system::notes().concat().lines().filter_map(Note::parse).filter(is_here).collect::<Vec<_>>();
        assert_eq!(own, [Note::own()]);
        assert_eq!(others(), [""; 0]);
        let program = std::env::current_exe().expect("a running program has a path");
        let object = std::fs::canonicalize(&own[0].object).expect("the object is a file");
        assert_eq!(object, std::fs::canonicalize(program).expect("the program is a file"));
    }
}
