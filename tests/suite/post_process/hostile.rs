//! Bytes that no profiler writes: an error or a space, never a panic.

use super::spaces::spaces;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use proptest::sample::Index;
use prost::Message as _;
use zprof_proto::XSpace;
use zprof_runtime::ErrorKind;
use zprof_runtime::xspace::post_process_bytes;
use zprof_tests::make::{Plane, space};

#[test]
fn an_error_names_the_reason() {
    let cut = &space([Plane::new("/host:CPU").line(1, "main", 5)]).encode_to_vec()[..14];
    let error = post_process_bytes(cut, 1, 2).expect_err("the plane is cut");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let expected = "failed to read an XSpace from 14 bytes, which must be a serialised tensorflow.profiler.XSpace";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_largest_ids_and_times_wrap() {
    for timestamp in [i64::MIN, -1, 0, i64::MAX] {
        let line = |id, at| Plane::new("d").line(id, "l", at).event("a", i64::MAX, i64::MIN).event("b", i64::MIN, -1);
        let mut space = space([line(i64::MAX, timestamp), line(i64::MAX, i64::MAX), line(i64::MAX, i64::MIN)]);
        for plane in &mut space.planes {
            let kind = plane.event_metadata.remove(&1).expect("the first kind");
            plane.event_metadata.insert(i64::MAX, kind);
        }
        for start in [1, 1 << 63, u64::MAX] {
            let bytes = post_process_bytes(&space.encode_to_vec(), start, u64::MAX).expect("a space");
            let made = XSpace::decode(bytes.as_slice()).expect("a space");
            assert_eq!(made.planes[0].lines[0].events.len(), 6);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_spaces(
        space in spaces(),
        changes in vec((any::<Index>(), any::<u8>()), 0..6),
        start_ns in any::<u64>(),
        stop_ns in any::<u64>(),
    ) {
        let mut bytes = space.encode_to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Err(error) = post_process_bytes(&bytes, start_ns, stop_ns) {
            prop_assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..64)) {
        if let Err(error) = post_process_bytes(&bytes, 1, 2) {
            prop_assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
    }
}
