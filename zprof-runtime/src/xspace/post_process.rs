//! What becomes of a raw XSpace at the end of a session: host planes merged, times relative, events in order.

use super::metadata::stat_id;
use super::{merge, names, normalise};
use crate::error::{Error, ErrorKind, Result};
use zprof_proto::prost::Message as _;
use zprof_proto::x_stat::Value;
use zprof_proto::{XPlane, XSpace, XStat};

/// Gives each plane the stat `process_id`, unless it has one. To be called before [`post_process`], so that the merged
/// host plane inherits it.
pub(crate) fn set_process_id(space: &mut XSpace, process_id: i32) {
    for plane in &mut space.planes {
        let id = stat_id(plane, names::PROCESS_ID);
        if plane.stats.iter().all(|stat| stat.metadata_id != id) {
            plane.stats.push(XStat { metadata_id: id, value: Some(Value::Int64Value(process_id.into())) });
        }
    }
}

/// Makes what readers expect of a raw space: one host plane, one plane a name, lines that count from the start of the
/// session, events in order. Both times are in nanoseconds since the Unix epoch; they are written down unless one is 0.
///
/// This is what TSL's post-processing does, but equal elements keep their order.
pub(crate) fn post_process(space: &mut XSpace, start_ns: u64, stop_ns: u64) {
    merge::merge_host_planes(space);
    merge::merge_same_names(space);
    normalise::normalise(space, start_ns);
    if start_ns != 0 && stop_ns != 0 {
        set_session_times(space, start_ns, stop_ns);
    }
    normalise::sort(space);
}

/// [`post_process`] on the bytes of a space, for tests.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] if `bytes` is not an XSpace.
#[doc(hidden)]
pub fn post_process_bytes(bytes: &[u8], start_ns: u64, stop_ns: u64) -> Result<Vec<u8>> {
    let mut space = decode(bytes)?;
    post_process(&mut space, start_ns, stop_ns);
    Ok(space.encode_to_vec())
}

/// All that happens to the space of a session before it is written: [`set_process_id`], lines that begin before the
/// session moved into it with a warning in the space, [`post_process`].
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] if `bytes` is not an XSpace.
#[doc(hidden)]
pub fn finish_bytes(bytes: &[u8], process_id: i32, start_ns: u64, stop_ns: u64) -> Result<Vec<u8>> {
    let mut space = decode(bytes)?;
    set_process_id(&mut space, process_id);
    let warnings = normalise::clamp_early_lines(&mut space, start_ns);
    space.warnings.extend(warnings);
    post_process(&mut space, start_ns, stop_ns);
    Ok(space.encode_to_vec())
}

/// Reads a space from bytes.
pub(crate) fn decode(bytes: &[u8]) -> Result<XSpace> {
    XSpace::decode(bytes).map_err(|cause| {
        let what = format!(
            "failed to read an XSpace from {} bytes, which must be a serialised tensorflow.profiler.XSpace",
            bytes.len()
        );
        Error::with_source(ErrorKind::InvalidData, what, cause)
    })
}

fn set_session_times(space: &mut XSpace, start_ns: u64, stop_ns: u64) {
    let at = space.planes.iter().position(|plane| plane.name == names::TASK_ENVIRONMENT).unwrap_or_else(|| {
        space.planes.push(XPlane { name: names::TASK_ENVIRONMENT.to_owned(), ..Default::default() });
        space.planes.len() - 1
    });
    let plane = &mut space.planes[at];
    for (name, time_ns) in [(names::PROFILE_START_TIME, start_ns), (names::PROFILE_STOP_TIME, stop_ns)] {
        let metadata_id = stat_id(plane, name);
        plane.stats.push(XStat { metadata_id, value: Some(Value::Uint64Value(time_ns)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn process_ids_are_set_where_there_is_none() {
        let named = |name: &str| XPlane { name: name.into(), ..Default::default() };
        let mut space = XSpace { planes: vec![named(names::HOST_CPU), named("/device:GPU:0")], ..Default::default() };
        set_process_id(&mut space, 77);
        set_process_id(&mut space, 78);
        let process_id = XStat { metadata_id: 1, value: Some(Value::Int64Value(77)) };
        for plane in &space.planes {
            assert_eq!(plane.stats, std::slice::from_ref(&process_id));
            assert_eq!(plane.stat_metadata[&1].name, "process_id");
        }

        post_process(&mut space, 5, 6);
        let stats: Vec<_> = space.planes.iter().map(|plane| (plane.name.as_str(), plane.stats.len())).collect();
        assert_eq!(stats, [("/device:GPU:0", 1), ("/host:CPU", 1), ("Task Environment", 2)]);
        assert_eq!(space.planes[1].stats, [process_id]);
    }

    #[test]
    fn bytes_that_are_no_space_are_an_error_that_says_why() {
        let error = post_process_bytes(&[0x0a, 0x05, 0x08], 0, 0).expect_err("a plane longer than the bytes");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let message = "failed to read an XSpace from 3 bytes, which must be a serialised tensorflow.profiler.XSpace";
        assert_eq!(error.to_string(), message);
        let cause = error.source().expect("the decoder's error").to_string();
        assert!(cause.contains("XSpace.planes"), "{cause}");
    }
}
