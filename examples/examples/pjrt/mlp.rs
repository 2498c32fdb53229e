//! The three layers of `data/mlp.mlir`: their shapes, weights from a fixed seed, and the same computation in plain Rust.

use crate::rng::Rng;

/// The program for the plugin.
pub(crate) const PROGRAM: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/mlp.mlir"));

/// Rows of a batch.
pub(crate) const ROWS: usize = 64;
/// Numbers in a row of the input.
pub(crate) const INPUTS: usize = LAYERS[0].inputs;
/// Numbers in a row of the output.
pub(crate) const OUTPUTS: usize = LAYERS[LAYERS.len() - 1].outputs;

const LAYERS: [Layer; 3] = [
    Layer { inputs: 256, outputs: 512, activation: f32::tanh },
    Layer { inputs: 512, outputs: 512, activation: |x| x.max(0.0) },
    Layer { inputs: 512, outputs: 128, activation: |x| x },
];

struct Layer {
    inputs: usize,
    outputs: usize,
    activation: fn(f32) -> f32,
}

/// Weights of the layers.
pub(crate) struct Mlp {
    /// For each layer its matrix, row-major with a row for each input, and its bias.
    layers: Vec<(Vec<f32>, Vec<f32>)>,
}

/// An array with its shape.
pub(crate) struct Array<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) shape: Vec<usize>,
}

impl Mlp {
    /// Weights that follow from `seed` alone, scaled so that values keep their size from layer to layer.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let layers = LAYERS.map(|Layer { inputs, outputs, .. }| {
            let inputs_f32 = u16::try_from(inputs).map_or(f32::MAX, f32::from);
            let scale = (3.0 / inputs_f32).sqrt();
            let mut numbers = |count: usize| (0..count).map(|_| scale * rng.uniform()).collect::<Vec<f32>>();
            (numbers(inputs * outputs), numbers(outputs))
        });
        Self { layers: layers.into() }
    }

    /// The arguments of the program behind the input, in order.
    pub(crate) fn arguments(&self) -> Vec<Array<'_>> {
        let arrays = self.layers.iter().zip(LAYERS).flat_map(|((matrix, bias), Layer { inputs, outputs, .. })| {
            [Array { data: matrix, shape: vec![inputs, outputs] }, Array { data: bias, shape: vec![outputs] }]
        });
        arrays.collect()
    }

    /// What the program makes of a batch.
    pub(crate) fn forward(&self, batch: &[f32]) -> Vec<f32> {
        let mut values = batch.to_vec();
        for ((matrix, bias), Layer { inputs, outputs, activation }) in self.layers.iter().zip(LAYERS) {
            let mut next = Vec::with_capacity(values.len() / inputs * outputs);
            for row in values.chunks_exact(inputs) {
                let mut sums = bias.clone();
                for (value, weights) in row.iter().zip(matrix.chunks_exact(outputs)) {
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
                next.extend(sums.into_iter().map(activation));
            }
            values = next;
        }
        values
    }
}

/// A batch of inputs that follows from `seed` alone.
pub(crate) fn batch(seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    (0..ROWS * INPUTS).map(|_| rng.uniform()).collect()
}

/// The largest difference between two arrays; infinite where they have not the same length or one is not a number.
pub(crate) fn difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, next| if next.is_nan() { f32::INFINITY } else { next.max(most) })
}
