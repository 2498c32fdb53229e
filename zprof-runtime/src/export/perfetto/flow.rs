//! Arrows between events: which of an event's stats make it the end of one.

use crate::xspace::reader::Value;

/// What a stat means beyond being an argument, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    None,
    /// Is the name of the event.
    StepName,
    Flow,
    ProducerType,
    Producer,
    ConsumerType,
    Consumer,
    Correlation,
    Async,
}

impl Role {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "step_name" => Self::StepName,
            "flow" => Self::Flow,
            "_pt" => Self::ProducerType,
            "_p" => Self::Producer,
            "_ct" => Self::ConsumerType,
            "_c" => Self::Consumer,
            "correlation_id" => Self::Correlation,
            "_a" => Self::Async,
            _ => Self::None,
        }
    }
}

/// The stats of one event that say where arrows go, as XProf reads them.
///
/// | stats | arrow |
/// |---|---|
/// | `flow` | bits 0–1 are the direction (1 in, 2 out, 3 both), the others the id; without direction there is none |
/// | `_pt` and `_p` | out, id of type and number |
/// | `_ct` and `_c` | in, the same id |
/// | `correlation_id` | out on the host's planes, in on others |
///
/// `flow` hides the others, which it is made from; on an event with `_a` it is no arrow. The id that is written is a hash of the
/// host's place, the kind of stat and the id.
///
/// An event that is out, or both out and in, has the id in `flow_ids`: the trace processor draws an arrow to it from the event
/// before that has the id there, if there is one. An event that is in has a `legacy_event` with the flow direction `FLOW_IN`: an
/// arrow goes to it from the last event with the id in `flow_ids`, and that stays the origin of further arrows. So all receivers
/// are joined with their sender. `terminating_flow_ids`, the usual field, would end the flow at the first of them. There is one
/// `legacy_event` an event, so a second end that is in goes to `flow_ids`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flows {
    flow: Option<u64>,
    producer_type: Option<u64>,
    producer: Option<u64>,
    consumer_type: Option<u64>,
    consumer: Option<u64>,
    correlation: Option<u64>,
    is_async: bool,
    any: bool,
}

/// One end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) id: u64,
    /// Whether an arrow comes in, and none goes on from here.
    pub(super) is_in: bool,
}

impl Flows {
    /// Notes a stat of the event. Only integers count.
    #[inline]
    pub(super) fn note(&mut self, role: Role, value: Value) {
        let number = match value {
            Value::Int(number) => number as u64, // keeps every bit
            Value::Uint(number) => number,
            _ => return,
        };
        self.any = true;
        match role {
            Role::None | Role::StepName => {}
            Role::Flow => self.flow = Some(number),
            Role::ProducerType => self.producer_type = Some(number),
            Role::Producer => self.producer = Some(number),
            Role::ConsumerType => self.consumer_type = Some(number),
            Role::Consumer => self.consumer = Some(number),
            Role::Correlation => self.correlation = Some(number),
            Role::Async => self.is_async = number != 0,
        }
    }

    /// The ends of arrows that the event is, on the host with this place.
    #[inline]
    pub(super) fn ends(&self, host: u64, on_host_plane: bool) -> [Option<End>; 3] {
        if self.any { self.all_ends(host, on_host_plane) } else { [None; 3] }
    }

    fn all_ends(&self, host: u64, on_host_plane: bool) -> [Option<End>; 3] {
        if let Some(flow) = self.flow {
            let end = End { id: hash([host, 0, 0, flow >> 2]), is_in: flow & 3 == 1 };
            return [Some(end).filter(|_| flow & 3 != 0 && !self.is_async), None, None];
        }
        let context = |kind: Option<u64>, id: Option<u64>, is_in| Some(End { id: hash([host, 1, kind?, id?]), is_in });
        let out = context(self.producer_type, self.producer, false);
        // Who is both in and out hands the flow on, and is no sender of its own.
        let into =
            context(self.consumer_type, self.consumer, true).filter(|into| out.is_none_or(|out| out.id != into.id));
        let mut correlation = self.correlation.map(|id| End { id: hash([host, 2, 0, id]), is_in: !on_host_plane });
        if let (Some(_), Some(second)) = (into, &mut correlation) {
            second.is_in = false;
        }
        [out, into, correlation]
    }
}

/// Mixes words to one that is never 0 (the steps of splitmix64).
fn hash(words: [u64; 4]) -> u64 {
    let mixed = words.iter().fold(0_u64, |sum, word| {
        let value = (sum ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    });
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(stats: &[(Role, i64)], on_host_plane: bool) -> Vec<(u64, bool)> {
        let mut flows = Flows::default();
        for (role, number) in stats {
            flows.note(*role, Value::Int(*number));
        }
        flows.ends(0, on_host_plane).into_iter().flatten().map(|end| (end.id, end.is_in)).collect()
    }

    #[test]
    fn producer_and_consumer_meet_and_flow_hides_them() {
        use Role::{Async, Consumer, ConsumerType, Correlation, Flow, Producer, ProducerType};
        let out = ends(&[(ProducerType, 9), (Producer, 5)], true);
        assert_eq!(ends(&[(ConsumerType, 9), (Consumer, 5)], true), [(out[0].0, true)]);
        assert!(!out[0].1);
        assert_ne!(ends(&[(ConsumerType, 8), (Consumer, 5)], true)[0].0, out[0].0);
        assert_eq!(ends(&[(Producer, 5)], true), []);
        // In and out at once is one end, which hands the flow on.
        let both = [(ConsumerType, 9), (Consumer, 5), (ProducerType, 9), (Producer, 5)];
        assert_eq!(ends(&both, true), out);

        let flow = |direction: i64| ends(&[(Flow, 77 << 2 | direction), (ProducerType, 1), (Producer, 5)], true);
        let id = flow(1)[0].0;
        assert_eq!(
            [flow(0), flow(1), flow(2), flow(3)],
            [vec![], vec![(id, true)], vec![(id, false)], vec![(id, false)]]
        );
        assert_eq!(ends(&[(Flow, 77 << 2 | 1), (Async, 1)], true), []);

        let host = ends(&[(Correlation, 4)], true);
        assert_eq!(ends(&[(Correlation, 4)], false), [(host[0].0, true)]);
        assert!(!host[0].1);
        // One end that is in has the one place for such ends.
        let into = ends(&[(ConsumerType, 9), (Consumer, 5), (Correlation, 4)], false);
        assert_eq!(into, [(out[0].0, true), (host[0].0, false)]);
    }
}
