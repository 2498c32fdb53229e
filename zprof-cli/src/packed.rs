//! Packs a Perfetto trace on the way out: runs of its packets become zlib streams, which Perfetto's readers open by themselves.
//!
//! | message | field |
//! |---|---|
//! | Trace | packet 1 |
//! | TracePacket | compressed_packets 50: zlib of packets, as they would stand in a Trace |
//!
//! Workers compress while the exporter goes on. Memory is bounded: a worker has at most two runs at a time. A packet that is
//! longer than a run should be goes through as it is, since a reader takes each stream into memory whole.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Bytes of a run. Larger ones save under two per cent.
const RUN: usize = 128 << 10;
/// Bytes of a packet that goes into a run, at most.
const LONGEST: u64 = RUN as u64;
/// Bytes of a packet's key and length, at most.
const HEAD: usize = 11;
/// The most workers: more would wait for the exporter.
const MAX_WORKERS: usize = 3;
/// Level of compression: the quickest, so that the exporter seldom waits; 3 makes a tenth less of it.
const LEVEL: u32 = 1;
/// Key of a packet in a trace.
const PACKET: u8 = 1 << 3 | 2;
/// Key of `compressed_packets`.
const COMPRESSED_PACKETS: [u8; 2] = [0x92, 3];

/// Has `write` write a trace, and writes it packed to `out`. If `write` fails, what is written is a trace that lacks packets.
pub(crate) fn pack<T>(out: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    pack_with(cores.saturating_sub(1).clamp(1, MAX_WORKERS), out, write)
}

fn pack_with<T>(count: usize, out: &mut dyn Write, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    thread::scope(|scope| {
        let workers = (0..count).map(|_| Worker::start(scope)).collect::<io::Result<_>>();
        let workers = workers.context("failed to start a thread that compresses")?;
        let mut packer = Packer { out, workers, given: 0, taken: 0, buffer: Vec::new(), passing: 0 };
        let value = write(&mut packer)?;
        packer.finish().context("failed to write the packed trace")?;
        Ok(value)
    })
}

/// A thread that makes packets of runs. It ends when it is dropped.
struct Worker {
    runs: Sender<Vec<u8>>,
    packets: Receiver<io::Result<Vec<u8>>>,
}

impl Worker {
    fn start<'s>(scope: &'s Scope<'s, '_>) -> io::Result<Self> {
        let (runs, of_runs) = channel::<Vec<u8>>();
        let (to_packets, packets) = channel();
        thread::Builder::new().name("zprof-pack".to_owned()).spawn_scoped(scope, move || {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(LEVEL));
            while let Ok(run) = of_runs.recv() {
                if to_packets.send(packet(&mut encoder, run)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { runs, packets })
    }
}

/// Makes a packet of a run; the run itself if that is not longer.
fn packet(encoder: &mut ZlibEncoder<Vec<u8>>, run: Vec<u8>) -> io::Result<Vec<u8>> {
    encoder.write_all(&run)?;
    let stream = encoder.reset(Vec::new())?;
    let mut field = COMPRESSED_PACKETS.to_vec();
    put_varint(&mut field, stream.len());
    let mut packet = vec![PACKET];
    put_varint(&mut packet, field.len() + stream.len());
    packet.extend_from_slice(&field);
    packet.extend_from_slice(&stream);
    Ok(if packet.len() < run.len() { packet } else { run })
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(value as u8 | 0x80); // its low seven bits, and the eighth set
        value >>= 7;
    }
    out.push(value as u8); // below 0x80
}

/// Cuts a trace into runs, which workers take in turns, and writes what they make in the order of the runs.
struct Packer<'w> {
    out: &'w mut dyn Write,
    workers: Vec<Worker>,
    /// Runs given to workers, and how many have come back.
    given: usize,
    taken: usize,
    /// What is in no run yet. It begins with a packet.
    buffer: Vec<u8>,
    /// Bytes to come of a packet that goes through as it is.
    passing: u64,
}

impl Packer<'_> {
    /// Makes runs of whole packets until no more than so many bytes are left, or no whole packet.
    fn cut(&mut self, most: usize) -> io::Result<()> {
        while self.buffer.len() > most {
            let mut whole = 0;
            let mut long = None;
            while whole < RUN {
                match packet_len(&self.buffer[whole..])? {
                    Some(len) if len > LONGEST => {
                        long = Some(len);
                        break;
                    }
                    Some(len) if whole + len as usize <= self.buffer.len() => whole += len as usize, // at most LONGEST
                    _ => break,
                }
            }
            if whole > 0 {
                let rest = self.buffer.split_off(whole);
                let run = std::mem::replace(&mut self.buffer, rest);
                self.give(run)?;
                continue;
            }
            let Some(len) = long else { break };
            self.take_all()?;
            let there = usize::try_from(len).unwrap_or(usize::MAX).min(self.buffer.len());
            self.out.write_all(&self.buffer[..there])?;
            self.buffer.drain(..there);
            self.passing = len - there as u64; // no more than it
        }
        Ok(())
    }

    fn give(&mut self, run: Vec<u8>) -> io::Result<()> {
        if self.given - self.taken >= 2 * self.workers.len() {
            self.take()?;
        }
        let worker = &self.workers[self.given % self.workers.len()];
        worker.runs.send(run).map_err(|_| ended())?;
        self.given += 1;
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let worker = &self.workers[self.taken % self.workers.len()];
        let packet = worker.packets.recv().map_err(|_| ended())??;
        self.taken += 1;
        self.out.write_all(&packet)
    }

    fn take_all(&mut self) -> io::Result<()> {
        while self.taken < self.given {
            self.take()?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        if self.buffer.is_empty() && self.passing == 0 {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the trace ends within a packet"))
    }
}

impl Write for Packer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.passing > 0 {
            let count = usize::try_from(self.passing).unwrap_or(usize::MAX).min(bytes.len());
            self.out.write_all(&bytes[..count])?;
            self.passing -= count as u64; // no more than it
            return Ok(count);
        }
        self.buffer.extend_from_slice(bytes);
        self.cut(RUN)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.cut(0)?;
        self.take_all()?;
        self.out.flush()
    }
}

#[cold]
fn ended() -> io::Error {
    io::Error::other("a thread that compresses has ended")
}

/// Bytes of the packet that stands here, its key and length among them; `None` if these are not all there.
fn packet_len(bytes: &[u8]) -> io::Result<Option<u64>> {
    let Some((key, rest)) = bytes.split_first() else { return Ok(None) };
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "what is packed is no sequence of packets");
    if *key != PACKET {
        return Err(wrong());
    }
    let mut len = 0_u64;
    for (place, byte) in (1_u64..HEAD as u64).zip(rest) {
        len |= u64::from(byte & 0x7f) << (7 * (place - 1)).min(63);
        if *byte < 0x80 {
            return len.checked_add(1 + place).map(Some).ok_or_else(wrong);
        }
    }
    if rest.len() < HEAD - 1 { Ok(None) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use anyhow::bail;
    use flate2::read::ZlibDecoder;

    use super::*;

    /// A reader that goes away.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A packet with so many bytes, which do not compress if they are `noisy`.
    fn plain(len: usize, noisy: bool) -> Vec<u8> {
        let mut state = len as u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if noisy { (state >> 56) as u8 } else { b'x' }
        };
        let mut packet = vec![PACKET];
        put_varint(&mut packet, len);
        packet.extend((0..len).map(|_| byte()));
        packet
    }

    /// The trace that a packed one holds, and how many packets stand in it as they are and how many streams.
    fn unpack(mut packed: &[u8]) -> (Vec<u8>, usize, usize) {
        let (mut trace, mut plain, mut streams) = (Vec::new(), 0, 0);
        while let Some(len) = packet_len(packed).expect("are packets") {
            let (packet, rest) = packed.split_at(usize::try_from(len).expect("is small"));
            let body = &packet[packet.iter().skip(1).position(|byte| *byte < 0x80).expect("ends") + 2..];
            if body.starts_with(&COMPRESSED_PACKETS) {
                let stream = &body[body.iter().skip(2).position(|byte| *byte < 0x80).expect("ends") + 3..];
                let before = trace.len();
                ZlibDecoder::new(stream).read_to_end(&mut trace).expect("is zlib");
                assert!(trace.len() - before < 2 * RUN);
                streams += 1;
            } else {
                trace.extend_from_slice(packet);
                plain += 1;
            }
            packed = rest;
        }
        assert_eq!(packed, b"");
        (trace, plain, streams)
    }

    #[test]
    fn the_field_is_number_50() {
        let mut key = Vec::new();
        put_varint(&mut key, 50 << 3 | 2);
        assert_eq!(COMPRESSED_PACKETS.as_slice(), key);
    }

    #[test]
    fn what_is_packed_comes_out_whatever_the_writes() {
        let sizes = [5, 0, 200, RUN - 5, 20, 3 * RUN, 1, RUN, RUN - 4, 7, 300, 10 * RUN, 2, 40_000, 40_000, 40_000];
        for (noisy, step) in [(false, usize::MAX), (false, 1_000), (true, 70_000), (false, 1), (true, 1 << 20)] {
            for workers in [1, 3] {
                let trace: Vec<u8> = sizes.iter().flat_map(|size| plain(*size, noisy)).collect();
                let mut packed = Vec::new();
                let value = pack_with(workers, &mut packed, |out| {
                    trace.chunks(step).try_for_each(|chunk| out.write_all(chunk))?;
                    Ok(7)
                });
                assert_eq!(value.expect("is written"), 7);
                let (found, plain, streams) = unpack(&packed);
                assert!(found == trace, "{noisy} {step} {workers}");
                assert!(noisy || streams >= 3, "{streams} streams");
                assert!(plain >= 3, "{plain} plain packets");
            }
        }
    }

    #[test]
    fn failures_are_told_and_leave_whole_packets() {
        let packets: Vec<u8> = (0..40).flat_map(|_| plain(30_000, false)).collect();
        let mut packed = Vec::new();
        let failed = pack(&mut packed, |out| -> Result<()> {
            out.write_all(&packets)?;
            bail!("no more")
        });
        assert_eq!(failed.expect_err("fails").to_string(), "no more");
        assert!(packets.starts_with(&unpack(&packed).0));

        let cut = pack(&mut io::sink(), |out| Ok(out.write_all(&packets[..packets.len() - 1])?));
        assert_eq!(cut.expect_err("fails").root_cause().to_string(), "the trace ends within a packet");
        let other = pack(&mut io::sink(), |out| Ok(out.write_all(&[0; 2 * RUN])?));
        assert_eq!(other.expect_err("fails").root_cause().to_string(), "what is packed is no sequence of packets");
        let long = pack(&mut io::sink(), |out| Ok(out.write_all(&[&[PACKET][..], &[0xff; 20]].concat())?));
        assert_eq!(long.expect_err("fails").root_cause().to_string(), "what is packed is no sequence of packets");

        let gone = pack(&mut Gone, |out| Ok(out.write_all(&packets)?)).expect_err("fails");
        let cause = gone.root_cause().downcast_ref::<io::Error>().expect("is of the writer");
        assert_eq!(cause.kind(), io::ErrorKind::BrokenPipe);
    }
}
