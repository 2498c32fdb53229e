//! The arguments of one event, gathered before any is written: a stat may also be the event's name, or an arrow.

use super::flow::{Flows, Role};
use super::names::{Arg, Kind, Names};
use crate::Result;
use crate::export::json::names::{MANY_ARGS, Rank, keep_last, push_last};
use crate::xspace::reader::{Event, Stat, Value, read_event_with, read_stat};
use crate::xspace::window::{Extent, Window};

/// What the stats of one event say.
#[derive(Default)]
pub(super) struct Args {
    /// Those of the event's own, by rank and each rank once.
    own: Vec<(Rank, Value)>,
    /// How many of them call for a look at doubles.
    many: usize,
    /// The value of the last `step_name`.
    pub(super) step_name: Option<Value>,
    pub(super) flows: Flows,
}

impl Args {
    /// Reads an event and gathers its stats.
    #[inline]
    pub(super) fn read(&mut self, window: &mut Window<'_>, names: &Names, body: Extent) -> Result<Event> {
        self.own.clear();
        self.many = MANY_ARGS;
        self.step_name = None;
        self.flows = Flows::default();
        let event = read_event_with(window, body, |window, stat| {
            let stat = read_stat(window, stat)?;
            self.note(names, &stat)
        })?;
        keep_last(&mut self.own, |arg| arg.0)?;
        Ok(event)
    }

    #[inline]
    fn note(&mut self, names: &Names, stat: &Stat) -> Result<()> {
        let rank = names.rank(stat.metadata_id);
        let key = names.key(rank);
        match key.role {
            Role::None => {}
            Role::StepName if stat.value != Value::Unset => self.step_name = Some(stat.value),
            role => self.flows.note(role, stat.value),
        }
        if !key.hidden && stat.value != Value::Unset {
            push_last(&mut self.own, (rank, stat.value), |arg| arg.0, &mut self.many)?;
        }
        Ok(())
    }

    /// Takes out the last number, which is a counter's sample; its rank and value.
    pub(super) fn take_sample(&mut self) -> Option<(Rank, Value)> {
        let is_number = |arg: &(Rank, Value)| matches!(arg.1, Value::Int(_) | Value::Uint(_) | Value::Double(_));
        let place = self.own.iter().rposition(is_number)?;
        Some(self.own.remove(place))
    }

    /// Walks over the arguments by rank; an event's own hides the shared one of its name.
    #[inline]
    pub(super) fn each(&self, names: &Names, kind: &Kind, mut each: impl FnMut(Arg) -> Result<()>) -> Result<()> {
        let mut shared = names.args(kind).iter().peekable();
        for (rank, value) in &self.own {
            while let Some(arg) = shared.next_if(|arg| arg.rank <= *rank) {
                if arg.rank < *rank {
                    each(*arg)?;
                }
            }
            each(Arg { rank: *rank, value: names.value(*value) })?;
        }
        shared.try_for_each(|arg| each(*arg))
    }
}
