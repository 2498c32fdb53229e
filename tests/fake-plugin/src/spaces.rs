//! The spaces that the fake collects, in the form that plugins of GPUs and TPUs give theirs.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message as _;
use prost::encoding::{encode_varint, encoded_len_varint};
use zprof_proto::x_event::Data;
use zprof_proto::x_stat::Value;
use zprof_proto::{XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat, XStatMetadata};

use crate::{CALLS, Call, KERNELS, Kernel, lock, number, told, values};

/// Correlation id of the first kernel.
pub(crate) const FIRST_CORRELATION: u64 = 7001;

/// Kernels that run where the program has launched none.
const USUAL_KERNELS: u64 = 6;
const USUAL_KERNEL_NS: u64 = 2_000;

/// Now, in nanoseconds since the epoch.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What a session with these options collects.
pub(crate) fn bytes(options: &[u8]) -> Vec<u8> {
    if told("garbage") {
        return b"these bytes are no space".to_vec();
    }
    if let Some(path) = values("file").last() {
        return std::fs::read(path).unwrap_or_default();
    }
    if told("megabytes") {
        return sized(number::<usize>("megabytes", 1) << 20);
    }
    let names = values("space").last().cloned().unwrap_or_else(|| "gpu+metadata".to_owned());
    let mut space = XSpace::default();
    for name in names.split('+') {
        match name {
            "gpu" => space.planes.extend([launches(), gpu()]),
            "tpu" => space.planes.push(tpu()),
            "host" => space.planes.push(host()),
            "metadata" => space.planes.push(metadata(options)),
            "ends-in-zero" => space.planes.push(ends_in_zero()),
            _ => {}
        }
    }
    space.encode_to_vec()
}

/// A plane in the making.
struct Plane(XPlane);

impl Plane {
    fn new(id: i64, name: &str) -> Self {
        Self(XPlane { id, name: name.to_owned(), ..Default::default() })
    }

    fn name_id(&mut self, name: &str) -> i64 {
        let table = &mut self.0.stat_metadata;
        if let Some((id, _)) = table.iter().find(|(_, known)| known.name == name) {
            return *id;
        }
        let id = table.len() as i64 + 1;
        table.insert(id, XStatMetadata { id, name: name.to_owned(), ..Default::default() });
        id
    }

    fn kind_id(&mut self, name: &str) -> i64 {
        let table = &mut self.0.event_metadata;
        if let Some((id, _)) = table.iter().find(|(_, known)| known.name == name) {
            return *id;
        }
        let id = table.len() as i64 + 1;
        table.insert(id, XEventMetadata { id, name: name.to_owned(), ..Default::default() });
        id
    }

    fn stat(&mut self, name: &str, value: Value) -> XStat {
        XStat { metadata_id: self.name_id(name), value: Some(value) }
    }

    fn line(&mut self, id: i64, name: &str, timestamp_ns: i64) {
        self.0.lines.push(XLine { id, name: name.to_owned(), timestamp_ns, ..Default::default() });
    }

    /// Adds an event to the last line.
    fn event(&mut self, name: &str, offset_ns: i64, duration_ns: i64, stats: Vec<(&str, Value)>) {
        let stats = stats.into_iter().map(|(name, value)| self.stat(name, value)).collect();
        let metadata_id = self.kind_id(name);
        let (data, duration_ps) = (Some(Data::OffsetPs(offset_ns * 1000)), duration_ns * 1000);
        if let Some(line) = self.0.lines.last_mut() {
            line.events.push(XEvent { metadata_id, data, duration_ps, stats });
        }
    }
}

/// Every kernel, by the host's clock.
fn kernels() -> Vec<Kernel> {
    let launched = lock(&KERNELS).clone();
    if !launched.is_empty() {
        return launched;
    }
    let first = now_ns() - USUAL_KERNELS * USUAL_KERNEL_NS * 2;
    let kernel = |kernel| Kernel {
        start_ns: first + kernel * USUAL_KERNEL_NS * 2,
        duration_ns: USUAL_KERNEL_NS,
        launch_ns: 900,
        tid: std::process::id().into(),
    };
    (0..USUAL_KERNELS).map(kernel).collect()
}

/// A time of the host on the device's clock.
fn on_device(time_ns: u64) -> i64 {
    (time_ns as i64).wrapping_add(number("shift-ns", 0))
}

/// The plane of the driver's API, with a line for each thread that launched: one launch a kernel.
fn launches() -> XPlane {
    let mut plane = Plane::new(-1, "/host:CUPTI");
    let kernels = kernels();
    let start = kernels.first().map_or(0, |kernel| kernel.start_ns as i64) - 1_000;
    let threads: BTreeSet<u64> = kernels.iter().map(|kernel| kernel.tid).collect();
    for tid in threads {
        plane.line(tid as i64, "launching", start);
        for (at, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| kernel.tid == tid) {
            let correlation = Value::Uint64Value(FIRST_CORRELATION + at as u64);
            let offset = kernel.start_ns as i64 - start;
            plane.event("cuLaunchKernel", offset, kernel.launch_ns as i64, vec![("correlation_id", correlation)]);
        }
    }
    plane.0
}

/// A GPU with a stream for kernels and one for copies.
fn gpu() -> XPlane {
    let mut plane = Plane::new(0, "/device:GPU:0");
    let kernels = kernels();
    let start = kernels.first().map_or(0, |kernel| kernel.start_ns);
    plane.line(13, "Stream #13(Compute)", on_device(start));
    for (at, Kernel { start_ns, duration_ns, .. }) in kernels.iter().enumerate() {
        let id = plane.name_id("fusion");
        let stats = vec![
            ("correlation_id", Value::Uint64Value(FIRST_CORRELATION + at as u64)),
            ("context_id", Value::StrValue("$$1".to_owned())),
            ("kernel_details", Value::StrValue("regs:32 grid:64,1,1 block:256,1,1 occ_pct:100".to_owned())),
            ("hlo_op", Value::RefValue(id as u64)),
            ("hlo_module", Value::StrValue("jit_step".to_owned())),
        ];
        let name = if at % 2 == 0 { "gemm_fusion" } else { "loop_add_fusion" };
        plane.event(name, (start_ns - start) as i64, *duration_ns as i64, stats);
    }
    plane.line(14, "Stream #14(MemcpyH2D)", on_device(start));
    let details = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1";
    plane.event("MemcpyH2D", 0, 500, vec![("memcpy_details", Value::StrValue(details.to_owned()))]);
    for (name, value) in [("core_count", 108), ("clock_rate", 1_410_000), ("memory_size", 42_505_273_344)] {
        let stat = plane.stat(name, Value::Uint64Value(value));
        plane.0.stats.push(stat);
    }
    let vendor = plane.stat("device_vendor", Value::StrValue("Nvidia".to_owned()));
    plane.0.stats.push(vendor);
    plane.0
}

/// A core of a TPU, with steps, modules and operations, whose consumer is linked to the program by context.
fn tpu() -> XPlane {
    let mut plane = Plane::new(0, "/device:TPU:0");
    let kernels = kernels();
    let first = kernels.first().map_or(0, |kernel| kernel.start_ns);
    let start = on_device(first);
    let whole = kernels.last().map_or(0, |last| last.start_ns + last.duration_ns - first) as i64;
    plane.line(1, "Steps", start);
    plane.event("0", 0, whole, vec![("group_id", Value::Int64Value(0))]);
    plane.line(2, "XLA Modules", start);
    let flow = 17 << 2 | 1;
    plane.event("jit_step(42)", 0, whole, vec![("run_id", Value::Int64Value(1)), ("flow", Value::Uint64Value(flow))]);
    plane.line(3, "XLA Ops", start);
    for Kernel { start_ns, duration_ns, .. } in kernels {
        let stats = vec![("program_id", Value::Uint64Value(42)), ("hlo_op", Value::StrValue("fusion.1".to_owned()))];
        plane.event("%fusion.1 = f32[8,8]", (start_ns - first) as i64, duration_ns as i64, stats);
    }
    plane.0
}

/// The plugin's own recorder: the calls that named their caller, or a call on the main thread's line and on those that
/// were named, with times of the host.
fn host() -> XPlane {
    const NAME: &str = "PJRT_LoadedExecutable_Execute";
    let mut plane = Plane::new(0, "/host:CPU");
    let consumer = |id| vec![("_ct", Value::Int64Value(14)), ("_c", id)];
    let calls = lock(&CALLS).clone();
    let threads: BTreeSet<u64> = calls.iter().map(|call| call.tid).collect();
    for tid in threads {
        let calls: Vec<&Call> = calls.iter().filter(|call| call.tid == tid).collect();
        let start = calls.first().map_or(0, |call| call.start_ns);
        plane.line(tid as i64, &format!("tf_fake/{tid}"), start as i64);
        for call in calls {
            // Unsigned in the plugin's text, so that "no context" is too large for an int64.
            let id =
                u64::try_from(call.context).map_or(Value::Uint64Value(u64::MAX), |_| Value::Int64Value(call.context));
            plane.event(NAME, (call.start_ns - start) as i64, call.duration_ns as i64, consumer(id));
        }
    }
    if calls.is_empty() {
        let now = now_ns() as i64;
        let named = values("tid").iter().filter_map(|tid| tid.parse().ok()).collect::<Vec<i64>>();
        for tid in std::iter::once(i64::from(std::process::id())).chain(named) {
            plane.line(tid, &format!("tf_fake/{tid}"), now - 10_000);
            plane.event(NAME, 0, 5_000, consumer(Value::Uint64Value(5)));
        }
    }
    plane.0
}

/// What the compiler says of a module, and the options of the session as they came.
fn metadata(options: &[u8]) -> XPlane {
    let mut plane = Plane::new(0, "/host:metadata");
    let proto = plane.stat("Hlo Proto", Value::BytesValue(b"\x0a\x08jit_step".to_vec()));
    let program = plane.stat("program_id", Value::Uint64Value(42));
    let id = plane.kind_id("jit_step(42)");
    if let Some(kind) = plane.0.event_metadata.get_mut(&id) {
        kind.stats = vec![proto, program];
    }
    let options = plane.stat("fake_options", Value::BytesValue(options.to_vec()));
    plane.0.stats.push(options);
    plane.0
}

/// A plane whose last byte is 0.
fn ends_in_zero() -> XPlane {
    let mut plane = Plane::new(0, "/device:CUSTOM:zero");
    // Without a name in the table: that would come after it.
    plane.0.stats.push(XStat { metadata_id: 1, value: Some(Value::Int64Value(0)) });
    plane.0
}

/// A space of about this many bytes, written without a copy in memory: a plane with one line of equal kernels, of 64
/// bytes and 2 ns each, where asked the second of each two before the first.
fn sized(size: usize) -> Vec<u8> {
    const EVENT: usize = 64;
    let mut plane = Plane::new(0, "/device:GPU:0");
    plane.kind_id("kernel");
    let stats = [("correlation_id", Value::Uint64Value(1)), ("pad", Value::BytesValue(vec![1; 36]))];
    let stats = stats.map(|(name, value)| plane.stat(name, value));
    let line = XLine {
        id: 13,
        name: "Stream #13(Compute)".to_owned(),
        timestamp_ns: on_device(now_ns()),
        ..Default::default()
    };
    let (plane, line) = (plane.0.encode_to_vec(), line.encode_to_vec());
    let event = XEvent { metadata_id: 1, duration_ps: 1000, stats: stats.into(), ..Default::default() }.encode_to_vec();
    // Tag and length of the event, tag of its offset, and the offset in as many bytes as fill it up.
    let offset = EVENT - 3 - event.len();
    let count = size / EVENT;
    let line_size = line.len() + count * EVENT;
    let plane_size = plane.len() + 1 + encoded_len_varint(line_size as u64) + line_size;

    let mut bytes = Vec::with_capacity(plane_size + 16);
    bytes.push(0x0a);
    encode_varint(plane_size as u64, &mut bytes);
    bytes.extend(&plane);
    bytes.push(0x1a);
    encode_varint(line_size as u64, &mut bytes);
    bytes.extend(&line);
    let swapped = u64::from(told("unsorted"));
    for at in (0..count as u64).map(|at| at ^ swapped) {
        bytes.extend([0x22, EVENT as u8 - 2]);
        bytes.extend(&event);
        bytes.push(0x10);
        let digits = (0..offset).map(|digit| ((at * 2_000) >> (7 * digit)) as u8 & 0x7f);
        bytes.extend(digits.enumerate().map(|(digit, bits)| if digit + 1 < offset { bits | 0x80 } else { bits }));
    }
    bytes
}
