//! Joining a plugin's space with the host's: the same as decoding and post-processing all of it.

use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use zprof_proto::XSpace;
use zprof_proto::x_stat::Value;
use zprof_runtime::xspace::{finish_bytes, join_bytes};
use zprof_tests::canonical::Plane as ByName;
use zprof_tests::make::{Plane, space};
use zprof_tests::{Canonical, canonical};

use super::spaces::{START, spaces};

/// Planes by name, each without its tables of names, which list what is not used too; and what the space says but for
/// its hosts, which the session names.
fn comparable(mut space: Canonical) -> (Vec<String>, Vec<ByName>) {
    space.notes.retain(|note| !note.starts_with("host "));
    let plane = |plane: ByName| {
        let mut stats = plane.stats;
        stats.sort();
        ByName { event_metadata: Vec::new(), stat_metadata: Vec::new(), stats, ..plane }
    };
    let mut planes: Vec<_> = space.planes.into_iter().map(plane).collect();
    planes.sort_by(|a, b| a.head.cmp(&b.head));
    (space.notes, planes)
}

fn joined_and_finished(space: &XSpace, start_ns: u64) -> [Canonical; 2] {
    let bytes = space.encode_to_vec();
    let joined = join_bytes(&bytes, 77, start_ns).expect("bytes of a space");
    let finished = finish_bytes(&bytes, 77, start_ns, 0).expect("bytes of a space");
    let mut both = [canonical(&joined), canonical(&finished)];
    both.iter_mut().for_each(|space| space.sort_ties("/host:CPU"));
    both
}

fn assert_alike(space: &XSpace, start_ns: u64) {
    let [joined, finished] = joined_and_finished(space, start_ns);
    let texts = format!("joined\n{joined}\nfinished\n{finished}");
    assert_eq!(comparable(joined), comparable(finished), "{texts}");
}

#[test]
fn a_device_plane_passes_with_its_times_relative_and_in_order() {
    let start = i64::try_from(START).expect("a time");
    let device = Plane::new("/device:GPU:0")
        .line(7, "Stream #7", start + 5)
        .event("late", 9000, 5)
        .text("kernel_details", "grid:1")
        .event("early", 100, 5)
        .event("around", 100, 50)
        .line(8, "counts from the session", 40)
        .event("k", 1, 2)
        .plane_stat("compute_cap_major", Value::Int64Value(9));
    let text =
        canonical(&join_bytes(&space([device.clone()]).encode_to_vec(), 77, START).expect("a space")).to_string();
    let order: Vec<_> = ["around", "early", "late"].iter().map(|name| text.find(name).expect("is there")).collect();
    assert!(order.is_sorted(), "{text}");
    assert_alike(&space([device]), START);
}

#[test]
fn a_device_plane_from_before_the_session_is_moved_into_it() {
    let start = i64::try_from(START).expect("a time");
    let device = Plane::new("/device:GPU:0")
        .line(7, "begins early", start - 300)
        .event("second", 2_001, 5)
        .text("kernel_details", "grid:1")
        .event("first", 1, 2)
        .line(8, "counts from before", start - 900)
        .event("k", 600_001, 5)
        .aggregated("all", 3, 9)
        .event("longer", 600_001, 7)
        .line(9, "of another age", start - 90_000_000_000)
        .event("old", 0, 1)
        .line(10, "counts from the session", 40)
        .event("k", 1, 2);
    let other = Plane::new("/device:GPU:1").line(7, "s", start - 2).event("k", 0, 1);
    let early = space([device, other]);
    assert_alike(&early, START);
    let text = canonical(&join_bytes(&early.encode_to_vec(), 77, START).expect("a space")).to_string();
    let warnings = "\
warning \"plane `/device:GPU:0`: line `begins early` (id 7) begins 300 ns before the session; the lines of this plane are moved to 300 ns later\"
warning \"plane `/device:GPU:0`: line `of another age` (id 9) begins 90000000000 ns before the session; it is moved to 90000000000 ns later\"
warning \"plane `/device:GPU:1`: line `s` (id 7) begins 2 ns before the session; the lines of this plane are moved to 2 ns later\"
";
    let lines = "
  line \"begins early\" id 7 at 0 ns
    at 1 ps for 2 ps of \"first\"
    at 2001 ps for 5 ps kernel_details=ref:\"grid:1\" of \"second\"
  line \"counts from before\" id 8 at 0 ns
    3 times for 9 ps of \"all\"
    at 1 ps for 7 ps of \"longer\"
    at 1 ps for 5 ps of \"k\"
  line \"of another age\" id 9 at 0 ns
    at 0 ps for 1 ps of \"old\"
  line \"counts from the session\" id 10 at 40 ns
    at 1 ps for 2 ps of \"k\"
plane \"/device:GPU:1\" id 0
";
    assert!(text.starts_with(warnings) && text.contains(lines), "{text}");
}

#[test]
fn broken_bytes_are_named_by_place() {
    let device = Plane::new("/device:GPU:0").line(7, "s", 1).event("k", 0, 1);
    let mut bytes = space([device]).encode_to_vec();
    let whole = bytes.len();
    bytes.truncate(whole - 3);
    let error = join_bytes(&bytes, 1, START).expect_err("is cut");
    assert_eq!(
        error.to_string(),
        format!("the plugin's profile is not an XSpace: at byte 0 of {} there is no whole field", whole - 3)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn made_up_spaces_are_joined_as_they_are_finished(
        space in spaces(), start_ns in select(vec![7, START, START + 500]),
    ) {
        let [joined, finished] = joined_and_finished(&space, start_ns);
        prop_assert_eq!(comparable(joined), comparable(finished));
    }
}
