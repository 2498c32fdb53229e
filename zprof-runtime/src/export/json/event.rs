//! One event of the document: its arguments, gathered from two places, and its text.

use super::limit::Place;
use super::names::{Arg, Kind, MANY_ARGS, Names, Rank, keep_last, push_last, put_number};
use super::output::Output;
use crate::Result;
use crate::export::text::put_uint;
use crate::xspace::reader::{Event, Value, each_event_stat};
use crate::xspace::window::Window;

/// An event that is shown, with what it needs to be written.
pub(super) struct Shown<'e> {
    pub(super) names: &'e Names,
    pub(super) place: Place,
    pub(super) event: &'e Event,
    pub(super) kind: Kind,
    pub(super) start_ps: u64,
}

impl Shown<'_> {
    #[inline]
    pub(super) fn duration_ps(&self) -> u64 {
        self.event.duration_ps as u64 // the format says modulo 2^64
    }
}

/// Arguments of one event, gathered before any is written: a stat may also be the event's name.
#[derive(Default)]
pub(super) struct Args {
    /// Those of the event's own, by rank and each rank once.
    own: Vec<(Rank, Value)>,
    /// The value of the last `step_name`.
    step_name: Option<Value>,
}

impl Args {
    #[inline(always)] // into each walk, as `read_event` is
    pub(super) fn gather(&mut self, window: &mut Window<'_>, shown: &Shown<'_>) -> Result<()> {
        self.own.clear();
        self.step_name = None;
        if !shown.event.has_stats {
            return Ok(());
        }
        let mut many = MANY_ARGS;
        each_event_stat(window, shown.event.body, |_, stat| {
            let rank = shown.names.rank(stat.metadata_id);
            let key = shown.names.key(rank);
            if key.hidden || stat.value == Value::Unset {
                return Ok(());
            }
            if key.is_step_name {
                self.step_name = Some(stat.value);
            }
            push_last(&mut self.own, (rank, stat.value), |arg| arg.0, &mut many)
        })?;
        keep_last(&mut self.own, |arg| arg.0)
    }
}

#[inline(always)] // as above
pub(super) fn write_event(window: &mut Window<'_>, out: &mut Output<'_>, shown: &Shown<'_>, args: &Args) -> Result<()> {
    let Shown { names, place, kind, start_ps, .. } = shown;
    out.begin_element()?;
    out.put(br#"{"ph":"X","pid":"#);
    put_uint(&mut out.buffer, u64::from(place.pid));
    out.put(br#","tid":"#);
    put_uint(&mut out.buffer, u64::from(place.tid));
    out.put_times(*start_ps, shown.duration_ps());
    out.put(br#","name":"#);
    match args.step_name {
        Some(value) => put_value(window, out, names, value)?,
        None => out.put_text(window, &names.arena, kind.name)?,
    }
    let shared = names.args(kind);
    if !shared.is_empty() || !args.own.is_empty() {
        out.put(br#","args":{"#);
        write_args(window, out, names, shared, &args.own)?;
        out.put(b"}");
    }
    out.put(b"}");
    Ok(())
}

/// Writes both sorted lists as one; an event's own argument hides the shared one of its name.
#[inline]
fn write_args(
    window: &mut Window<'_>,
    out: &mut Output<'_>,
    names: &Names,
    shared: &[Arg],
    own: &[(Rank, Value)],
) -> Result<()> {
    let mut shared = shared.iter().peekable();
    let mut first = true;
    let mut put_key = |window: &mut Window<'_>, out: &mut Output<'_>, rank: Rank| {
        if !std::mem::take(&mut first) {
            out.put(b",");
        }
        out.put_text(window, &names.arena, names.key_text(names.key(rank)))?;
        out.put(b":");
        Ok(())
    };
    for (rank, value) in own {
        while let Some(arg) = shared.next_if(|arg| arg.rank <= *rank) {
            if arg.rank < *rank {
                put_key(window, out, arg.rank)?;
                out.put_text(window, &names.arena, arg.value)?;
            }
        }
        put_key(window, out, *rank)?;
        put_value(window, out, names, *value)?;
    }
    for arg in shared {
        put_key(window, out, arg.rank)?;
        out.put_text(window, &names.arena, arg.value)?;
    }
    Ok(())
}

/// Writes a value as a JSON string.
#[inline]
fn put_value(window: &mut Window<'_>, out: &mut Output<'_>, names: &Names, value: Value) -> Result<()> {
    let text = match value {
        Value::Str(extent) => return out.put_source(window, extent),
        Value::Bytes(_) => names.opaque(),
        Value::Ref(id) => names.key_text(names.key(names.rank(id))),
        Value::Unset | Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            put_number(&mut out.buffer, value);
            return Ok(());
        }
    };
    out.put_text(window, &names.arena, text)
}
