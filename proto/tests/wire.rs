//! Messages encode to the bytes that TensorFlow's own library writes for them.

use prost::Message;
use std::collections::BTreeMap;
use zprof_proto::{
    AdvancedConfigValue, ProfileOptions, TraceOptions, XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat,
    XStatMetadata, advanced_config_value, x_event::Data, x_stat::Value,
};

/// Asserts that `message` encodes to `expected` (hexadecimal, white space between) and decodes from it.
#[track_caller]
fn assert_wire<M: Message + Default + PartialEq + std::fmt::Debug>(message: M, expected: &str) {
    let bytes = message.encode_to_vec();
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(M::decode(bytes.as_slice()), Ok(message));
}

/// Hexadecimal of a string, for fields that are easier to read as text.
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!(" {byte:02x}")).collect()
}

fn stat(value: Value) -> XStat {
    XStat { metadata_id: 1, value: Some(value) }
}

#[test]
fn stats_keep_their_type_even_when_zero_or_empty() {
    assert_wire(stat(Value::Int64Value(0)), "08 01 20 00");
    assert_wire(stat(Value::Int64Value(-5)), "08 01 20 fb ff ff ff ff ff ff ff ff 01");
    assert_wire(stat(Value::Uint64Value(u64::MAX)), "08 01 18 ff ff ff ff ff ff ff ff ff 01");
    assert_wire(stat(Value::DoubleValue(1.5)), "08 01 11 00 00 00 00 00 00 f8 3f");
    assert_wire(stat(Value::StrValue(String::new())), "08 01 2a 00");
    assert_wire(stat(Value::StrValue("ab".into())), "08 01 2a 02 61 62");
    assert_wire(stat(Value::BytesValue(vec![0])), "08 01 32 01 00");
    assert_wire(stat(Value::RefValue(7)), "08 01 38 07");
    assert_wire(XStat { metadata_id: 1, value: None }, "08 01");
}

#[test]
fn events_tell_an_offset_of_zero_from_none() {
    let event = |data, duration_ps| XEvent { metadata_id: 1, data: Some(data), duration_ps, stats: vec![] };
    assert_wire(event(Data::OffsetPs(0), 5), "08 01 10 00 18 05");
    assert_wire(event(Data::NumOccurrences(4), 0), "08 01 28 04");
    assert_wire(
        event(Data::OffsetPs(-500), -3),
        "08 01 10 8c fc ff ff ff ff ff ff ff 01 18 fd ff ff ff ff ff ff ff ff 01",
    );
    assert_wire(XEvent { metadata_id: 1, ..Default::default() }, "08 01");
}

#[test]
fn a_whole_space() {
    let event = XEvent {
        metadata_id: 1,
        data: Some(Data::OffsetPs(2000)),
        duration_ps: 3000,
        stats: vec![stat(Value::Int64Value(1))],
    };
    let line = XLine { id: 7, name: "t".into(), timestamp_ns: 1000, events: vec![event], ..Default::default() };
    let plane = XPlane {
        name: "/host:CPU".into(),
        lines: vec![line],
        event_metadata: BTreeMap::from([(1, XEventMetadata { id: 1, name: "op".into(), ..Default::default() })]),
        stat_metadata: BTreeMap::from([(1, XStatMetadata { id: 1, name: "a".into(), ..Default::default() })]),
        ..Default::default()
    };
    let space = XSpace { planes: vec![plane], hostnames: vec!["h".into()], ..Default::default() };
    assert_wire(
        space,
        "0a 3c 12 09 2f 68 6f 73 74 3a 43 50 55 1a 18 08 07 12 01 74 18 e8 07 22 0e 08 01 10 d0 0f 18 b8 17 22 04 08
         01 20 01 22 0a 08 01 12 06 08 01 12 02 6f 70 2a 09 08 01 12 05 08 01 12 01 61 22 01 68",
    );
}

#[test]
fn every_field_has_its_number() {
    let plane = XPlane { id: 3, stats: vec![stat(Value::Int64Value(1))], ..Default::default() };
    assert_wire(plane, "08 03 32 04 08 01 20 01");
    let line = XLine {
        id: 1,
        duration_ps: 2,
        display_id: 3,
        display_name: "d".into(),
        timestamp_ns: -1,
        ..Default::default()
    };
    assert_wire(line, "08 01 18 ff ff ff ff ff ff ff ff ff 01 48 02 50 03 5a 01 64");
    let event_metadata = XEventMetadata {
        id: 1,
        name: "n".into(),
        metadata: vec![9],
        display_name: "d".into(),
        stats: vec![stat(Value::Int64Value(1))],
        child_id: vec![5, 300],
    };
    assert_wire(event_metadata, "08 01 12 01 6e 1a 01 09 22 01 64 2a 04 08 01 20 01 32 03 05 ac 02");
    assert_wire(XStatMetadata { id: 1, name: "n".into(), description: "d".into() }, "08 01 12 01 6e 1a 01 64");
    let space = XSpace { errors: vec!["e".into()], warnings: vec!["w".into()], ..Default::default() };
    assert_wire(space, "12 01 65 1a 01 77");
}

#[test]
fn the_last_member_of_a_oneof_wins() {
    let event = XEvent::decode([0x10, 7, 0x28, 4].as_slice());
    assert_eq!(event, Ok(XEvent { data: Some(Data::NumOccurrences(4)), ..Default::default() }));
}

#[test]
fn maps_are_in_key_order_and_their_last_entry_wins() {
    let plane = XPlane::decode([0x2a, 2, 8, 2, 0x2a, 2, 8, 1, 0x2a, 7, 8, 2, 0x12, 3, 0x12, 1, b'x'].as_slice());
    let named = |name: &str| XStatMetadata { name: name.into(), ..Default::default() };
    let expected = XPlane { stat_metadata: BTreeMap::from([(1, named("")), (2, named("x"))]), ..Default::default() };
    assert_eq!(plane, Ok(expected));
}

#[test]
fn options() {
    let library = ProfileOptions {
        include_dataset_ops: true,
        host_tracer_level: 2,
        device_tracer_level: 1,
        version: 1,
        enable_hlo_proto: true,
        ..Default::default()
    };
    assert_wire(library.clone(), "08 01 10 02 18 01 28 01 38 01");
    let jax = ProfileOptions { host_tracer_level: 1, ..library.clone() };
    assert_wire(jax.clone(), "08 01 10 01 18 01 28 01 38 01");
    assert_wire(ProfileOptions { python_tracer_level: 1, ..jax }, "08 01 10 01 18 01 20 01 28 01 38 01");

    let zml = ProfileOptions {
        host_tracer_level: 3,
        device_tracer_level: 3,
        python_tracer_level: 1,
        repository_path: "/tmp/xprof".into(),
        session_id: "profiling".into(),
        ..library
    };
    let expected =
        format!("08 01 10 03 18 03 20 01 28 01 38 01 52 0a {} 72 09 {}", hex("/tmp/xprof"), hex("profiling"));
    assert_wire(zml, &expected);
}

#[test]
fn options_that_only_some_set() {
    let continuous = AdvancedConfigValue { value: Some(advanced_config_value::Value::BoolValue(true)) };
    let advanced = ProfileOptions {
        advanced_configuration: BTreeMap::from([("enable_continuous_profiling".into(), continuous)]),
        ..Default::default()
    };
    let expected = format!("62 21 0a 1b {} 12 02 10 01", hex("enable_continuous_profiling"));
    assert_wire(advanced, &expected);

    let trace_options = Some(TraceOptions { host_traceme_filter_mask: 1 });
    assert_wire(ProfileOptions { trace_options, ..Default::default() }, "5a 02 08 01");

    let rest = ProfileOptions {
        device_type: zprof_proto::DeviceType::Gpu.into(),
        start_timestamp_ns: 1,
        duration_ms: 2,
        raise_error_on_start_failure: true,
        override_hostname: "h".into(),
        enable_multipass: true,
        ..Default::default()
    };
    assert_wire(rest, "30 02 40 01 48 02 68 01 7a 01 68 80 01 01");

    let value = |value| AdvancedConfigValue { value: Some(value) };
    assert_wire(value(advanced_config_value::Value::StringValue(String::new())), "0a 00");
    assert_wire(value(advanced_config_value::Value::Int64Value(0)), "18 00");
}
