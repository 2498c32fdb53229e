//! Compiles and executes a small network through a PJRT plugin, some hundred times, and profiles that.
//!
//! `cargo run --release -p zprof-examples --example pjrt -- [PLUGIN] [--output DIR] [--steps N]`
//!
//! PLUGIN is the plugin's shared library; without it, zprof looks for one. The program is `data/mlp.mlir`, three layers
//! in StableHLO; every result is compared with the same layers in plain Rust. A failure ends it with a message and a
//! status that is not zero.
//!
//! What is tried: `xla-cpu-pjrt` 0.0.1 from PyPI, whose device is the processor and whose profile is the host's alone,
//! since it has no profiler extension. Nothing here is made for CPUs, so a CUDA plugin with a GPU should do as well, but
//! that has not been tried: without a GPU, `jax-cuda13-pjrt` (PJRT 0.116) gets as far as saying that there is none.
//!
//! `plugin.rs` and `abi.rs` are a client for one device and arrays of `f32`, no more: no options for the client, no
//! donated or aliased buffers, no collectives, no callbacks. They are no binding to build on.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

mod abi;
mod mlp;
mod options;
#[expect(unsafe_code, reason = "a plugin is a C library")]
mod plugin;
#[path = "../llm/rng.rs"]
mod rng;

use crate::mlp::{Array, Mlp};
use crate::options::Options;
use crate::plugin::{Buffer, Client, Plugin};

const SEED: u64 = 2_026;
/// Different inputs; the steps take turns with them.
const BATCHES: u64 = 4;
/// How far a number may be from the plain computation's: single precision, sums of 512 products of about one.
const TOLERANCE: f32 = 1e-4;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).map_err(Into::into).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("pjrt: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let (platform, library) = platform(options.plugin.as_deref())?;
    let plugin = Plugin::load(&library)?;
    let (major, minor) = plugin.version();
    println!("{} has PJRT {major}.{minor}", library.display());

    let mut profiler = platform.profiler(zprof::ProfilerOptions::default().repository_path(&options.output))?;
    profiler.start()?;
    let largest = execute(&platform, plugin, options.steps)?;
    let profile = profiler.stop()?.ok_or("the profiler was not running")?;

    println!("largest difference from the plain computation: {largest:e}");
    for path in [Some(profile.protobuf_path), profile.perfetto_path].into_iter().flatten() {
        println!("{}", path.display());
    }
    if largest <= TOLERANCE { Ok(()) } else { Err(format!("the difference is more than {TOLERANCE:e}").into()) }
}

/// What to profile, and the library of its plugin: the one named, or the one that zprof finds.
fn platform(named: Option<&Path>) -> Result<(zprof::Platform, PathBuf), Box<dyn Error>> {
    let platform = named.map_or_else(zprof::Platform::auto, zprof::Platform::load)?;
    let library = platform
        .library()
        .ok_or_else(|| format!("there is {}; name a plugin's library: {}", platform.describe(), options::USAGE))?;
    Ok((platform, library))
}

/// Runs the network on the plugin's device; returns the largest difference of all steps.
#[zprof::trace("pjrt.execute_all", steps)]
fn execute(platform: &zprof::Platform, plugin: Plugin, steps: usize) -> Result<f32, Box<dyn Error>> {
    let client = zprof::scope!("pjrt.client", { Client::new(plugin)? });
    println!("its platform is {}", client.platform_name()?);

    let executable = zprof::scope!("pjrt.compile", bytes = mlp::PROGRAM.len(), {
        client.compile(mlp::PROGRAM, &zprof::Linkage::compile(platform))?
    });
    let network = Mlp::new(SEED);
    let weights = zprof::scope!("pjrt.load", {
        network.arguments().iter().map(|array| upload(&client, array)).collect::<Result<Vec<_>, _>>()?
    });
    let batches: Vec<Vec<f32>> = (0..BATCHES).map(mlp::batch).collect();
    let expected: Vec<Vec<f32>> =
        zprof::scope!("pjrt.reference", { batches.iter().map(|batch| network.forward(batch)).collect() });

    let mut largest: f32 = 0.0;
    let mut result = vec![0.0; mlp::ROWS * mlp::OUTPUTS];
    let started = Instant::now();
    for (step, (batch, expected)) in batches.iter().zip(&expected).cycle().take(steps).enumerate() {
        zprof::scope!("pjrt.step", root = true, step_num = step);
        let input = upload(&client, &Array { data: batch, shape: vec![mlp::ROWS, mlp::INPUTS] })?;
        let arguments: Vec<&Buffer<'_>> = [&input].into_iter().chain(&weights).collect();
        let (output, done) =
            zprof::scope!("pjrt.execute", { executable.execute(&arguments, &zprof::Linkage::execute(platform))? });
        zprof::scope!("pjrt.await", { done.wait()? });
        zprof::scope!("pjrt.download", bytes = size_of_val(&*result), { output.download(&mut result)? });
        largest = largest.max(zprof::scope!("pjrt.check", { mlp::difference(&result, expected) }));
    }
    let mean = started.elapsed() / u32::try_from(steps)?;
    println!("{steps} steps of {mean:.1?} in the mean");
    Ok(largest)
}

/// Copies an array to the device.
#[zprof::trace("pjrt.upload", bytes = size_of_val(array.data))]
fn upload<'c>(client: &'c Client, array: &Array<'_>) -> Result<Buffer<'c>, Box<dyn Error>> {
    let dims = array.shape.iter().map(|&length| i64::try_from(length)).collect::<Result<Vec<i64>, _>>()?;
    Ok(client.upload(array.data, &dims)?)
}
