//! A recorded profile made longer.

use std::path::Path;

use zprof_proto::XSpace;
use zprof_proto::prost::Message as _;
use zprof_proto::x_event::Data;

const EVENTS: usize = 200_000;

/// A recorded space with its events again and again, one repetition after the other.
pub(crate) fn repeated(path: &Path) -> XSpace {
    let bytes = std::fs::read(path).expect("the fixture is there");
    let mut space = XSpace::decode(bytes.as_slice()).expect("it is a space");
    let lines = || space.planes.iter().flat_map(|plane| &plane.lines);
    let once: usize = lines().map(|line| line.events.len()).sum();
    let offset = |data: Option<Data>| if let Some(Data::OffsetPs(offset)) = data { offset } else { 0 };
    let ends = lines().flat_map(|line| line.events.iter().map(|event| offset(event.data) + event.duration_ps));
    let length = ends.max().expect("it has events") + 1;
    for line in space.planes.iter_mut().flat_map(|plane| &mut plane.lines) {
        let events = std::mem::take(&mut line.events);
        for (repetition, _) in (0_i64..).zip(0..EVENTS.div_ceil(once)) {
            let shift = repetition * length;
            line.events.extend(events.iter().cloned().map(|mut event| {
                event.data = Some(Data::OffsetPs(offset(event.data) + shift));
                event
            }));
        }
    }
    space
}
