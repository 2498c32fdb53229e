//! Joins the space that a plugin returns with the plane of the program's own scopes, as TSL's post-processing joins
//! tracers, in memory that does not grow with the plugin's events.
//!
//! Planes of the host, and planes that share a name, are decoded and merged. Every other plane, and those are the large
//! ones, passes as the bytes that it came in: only the heads of its lines are written anew, and its events only where
//! they are out of order or count from before the session.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use zprof_proto::prost::{DecodeError, Message as _};
use zprof_proto::{XPlane, XSpace};

use super::fields::Fields;
use super::lean::LeanPlane;
use super::wire::{BYTES, put_key, put_varint};
use super::writer::Plane;
use super::{names, normalise, post_process};
use crate::error::{Error, ErrorKind, Result};
use crate::room::OutOfMemory;

/// What a session knows that a plugin's space needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) process_id: i32,
    /// Wall clock at the start, ns since the Unix epoch.
    pub(crate) start_ns: u64,
}

/// A plugin's space, joined.
#[derive(Debug, Default)]
pub(crate) struct Joined<'a> {
    /// How many planes the plugin's space has that hold more than a name.
    planes: usize,
    /// All planes but the host's own and the session's, each a field of an XSpace, in pieces.
    pub(crate) pieces: Vec<Cow<'a, [u8]>>,
    /// What the plugin says in the plane `Task Environment`, if it has one.
    pub(crate) environment: Option<XPlane>,
    pub(crate) errors: Vec<String>,
    /// The plugin's own, then those of the join.
    pub(crate) warnings: Vec<String>,
}

impl Joined<'_> {
    /// Whether the plugin had nothing to show and nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.planes == 0 && self.errors.is_empty() && self.warnings.is_empty()
    }
}

/// Joins `plugin`, the bytes of an XSpace, with the host's plane. `own_id` gives line ids that no thread has.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] where the bytes are not an XSpace. The host plane is then as it was.
pub(crate) fn join<'a>(
    host: &mut Plane,
    plugin: &'a [u8],
    session: Session,
    own_id: impl FnMut() -> u64,
) -> Result<Joined<'a>> {
    let broken = |rest: &[u8]| not_a_space(plugin, rest);
    let mut joined = Joined::default();
    let mut raw: Vec<(String, &[u8])> = Vec::new();
    for field in Fields::new(plugin) {
        let field = field.map_err(broken)?;
        if let Some(body) = field.bytes(1) {
            raw.push((plane_name(body).map_err(broken)?, body));
        } else if let Some(text) = field.bytes(2) {
            joined.errors.push(String::from_utf8_lossy(text).into_owned());
        } else if let Some(text) = field.bytes(3) {
            joined.warnings.push(String::from_utf8_lossy(text).into_owned());
        }
    }
    let holds_more = |body: &[u8]| Fields::new(body).any(|field| field.is_ok_and(|field| field.number > 2));
    joined.planes = raw.iter().filter(|(_, body)| holds_more(body)).count();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (name, _) in &raw {
        *counts.entry(name).or_default() += 1;
    }
    // Everything that can fail comes before the first change of the host plane.
    let mut space = XSpace::default();
    let mut planes: Vec<(&str, Option<LeanPlane<'a>>)> = Vec::new();
    let mut listed = HashSet::new();
    let start = i64::try_from(session.start_ns).unwrap_or(i64::MAX);
    let mut early = Vec::new();
    for (name, body) in &raw {
        let mut lean = None;
        if !is_merged(name) && counts.get(name.as_str()) == Some(&1) {
            let mut plane = LeanPlane::read(body).map_err(broken)?;
            plane.clamp(name, start, &mut early);
            lean = Some(plane);
        } else {
            let mut plane = XPlane::decode(*body).map_err(|cause| undecodable(name, cause))?;
            normalise::clamp_plane(&mut plane, start, &mut early);
            space.planes.push(plane);
        }
        if listed.insert(name.as_str()) {
            planes.push((name, lean));
        }
    }
    post_process::set_process_id(&mut space, session.process_id);
    joined.warnings.extend(early);
    post_process::post_process(&mut space, session.start_ns, 0);
    let mut take = |name: &str| {
        let at = space.planes.iter().position(|plane| plane.name == name)?;
        Some(space.planes.remove(at))
    };
    joined.environment = take(names::TASK_ENVIRONMENT);
    if let Some(plane) = take(names::HOST_CPU) {
        host.adopt(plane, own_id);
    }
    for (name, lean) in planes {
        if let Some(mut plane) = lean {
            plane.set_process_id(session.process_id);
            plane.normalise(session.start_ns);
            plane.whole().map_err(OutOfMemory::error)?;
            joined.pieces.extend(plane.into_pieces());
        } else if let Some(plane) = take(name) {
            let body = plane.encode_to_vec();
            let mut head = Vec::new();
            put_key(&mut head, 1, BYTES);
            put_varint(&mut head, body.len() as u64);
            joined.pieces.extend([Cow::Owned(head), Cow::Owned(body)]);
        }
    }
    Ok(joined)
}

/// [`join`] with a host that has recorded nothing, for tests: the bytes of the whole space.
///
/// # Errors
///
/// As [`join`].
#[doc(hidden)]
pub fn join_bytes(plugin: &[u8], process_id: i32, start_ns: u64) -> Result<Vec<u8>> {
    let mut host = Plane::new(names::HOST_CPU);
    let joined = join(&mut host, plugin, Session { process_id, start_ns }, || 1 << 30)?;
    let environment = XSpace { planes: joined.environment.into_iter().collect(), ..XSpace::default() };
    let notes = XSpace { errors: joined.errors, warnings: joined.warnings, ..XSpace::default() };
    let mut bytes = joined.pieces.concat();
    bytes.extend(host.into_pieces().map_err(OutOfMemory::error)?.concat());
    bytes.extend(environment.encode_to_vec());
    bytes.extend(notes.encode_to_vec());
    Ok(bytes)
}

/// Whether planes of this name become part of another.
fn is_merged(name: &str) -> bool {
    names::HOST_SOURCES.contains(&name) || name == names::HOST_NVTX || name == names::TASK_ENVIRONMENT
}

/// Name of a plane; the last one on the wire.
fn plane_name(body: &[u8]) -> std::result::Result<String, &[u8]> {
    let mut name = String::new();
    for field in Fields::new(body) {
        if let Some(text) = field?.bytes(2) {
            name = String::from_utf8_lossy(text).into_owned();
        }
    }
    Ok(name)
}

/// `rest` is the part of `space` that begins where it is broken.
#[cold]
fn not_a_space(space: &[u8], rest: &[u8]) -> Error {
    let at = rest.as_ptr().addr().saturating_sub(space.as_ptr().addr());
    let len = space.len();
    let what = format!("the plugin's profile is not an XSpace: at byte {at} of {len} there is no whole field");
    Error::new(ErrorKind::InvalidData, what)
}

#[cold]
fn undecodable(name: &str, cause: DecodeError) -> Error {
    let what = format!("the plugin's profile is not an XSpace: plane `{name}` cannot be decoded");
    Error::with_source(ErrorKind::InvalidData, what, cause)
}
