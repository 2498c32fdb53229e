//! The arithmetic of the model, in plain f32: every result has the same bits on every machine and for any number of threads.

use rayon::prelude::*;

use crate::rng::Rng;
use crate::tokenizer::Token;

/// Rows of one matrix that one task computes; divides the rows of every matrix of the model.
const BLOCK: usize = 128;

/// Weights of a linear layer, one row per output.
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    weights: Vec<f32>,
}

impl Matrix {
    /// Random weights, scaled so that outputs are about as large as inputs.
    #[zprof::trace("llm.init", rows = rows, columns = columns, level = verbose)]
    pub(crate) fn random(rows: usize, columns: usize, rng: &mut Rng) -> Self {
        assert!(rows.is_multiple_of(BLOCK), "{rows} rows are no multiple of {BLOCK}");
        let scale = (3.0 / columns as f32).sqrt(); // CAST: columns are at most a few thousand, exact in f32
        let weights = (0..rows * columns).map(|_| rng.uniform() * scale).collect();
        Self { rows, columns, weights }
    }

    /// One row, as stored.
    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.weights[index * self.columns..][..self.columns]
    }

    /// The layer's outputs for a batch of inputs that lie one after the other.
    pub(crate) fn apply(&self, inputs: &[f32]) -> Vec<f32> {
        let batch = inputs.len() / self.columns;
        zprof::scope!("llm.matmul", m = batch, n = self.rows, k = self.columns);
        let mut outputs = vec![0.0; batch * self.rows];
        outputs.par_chunks_mut(BLOCK).enumerate().for_each(|(block, outputs)| {
            let first = block * BLOCK;
            let (sample, row) = (first / self.rows, first % self.rows);
            zprof::scope!("llm.rows", sample = sample, first = row);
            let input = &inputs[sample * self.columns..][..self.columns];
            for (offset, output) in outputs.iter_mut().enumerate() {
                *output = dot(self.row(row + offset), input);
            }
        });
        outputs
    }
}

/// The sum of the products, in one fixed order that the compiler can compute eight at a time.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (left, right) = (left.chunks_exact(8), right.chunks_exact(8));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    for (left, right) in left.zip(right) {
        for lane in 0..8 {
            sums[lane] += left[lane] * right[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Adds `right` to `left`, element by element.
pub(crate) fn add(left: &mut [f32], right: &[f32]) {
    for (left, right) in left.iter_mut().zip(right) {
        *left += right;
    }
}

/// Each row of `width` values, shifted and scaled to mean 0 and variance 1.
#[zprof::trace("llm.norm", seqlen = values.len() / width)]
pub(crate) fn layer_norm(values: &[f32], width: usize) -> Vec<f32> {
    let count = width as f32; // CAST: widths are at most a few thousand, exact in f32
    let mut normed = values.to_vec();
    for row in normed.chunks_exact_mut(width) {
        let mean = row.iter().sum::<f32>() / count;
        let variance = row.iter().map(|value| (value - mean) * (value - mean)).sum::<f32>() / count;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        for value in row {
            *value = (*value - mean) * scale;
        }
    }
    normed
}

/// Turns scores into weights that add up to 1.
pub(crate) fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

/// The place of the largest logit, the first one of equals.
pub(crate) fn argmax(logits: &[f32]) -> Token {
    let mut best = 0;
    for (index, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = index;
        }
    }
    Token::try_from(best).expect("the vocabulary fits a token")
}

/// e^x for x up to 0. The library's `exp` may differ by a bit from machine to machine, and then so would the tokens.
fn exp(x: f32) -> f32 {
    let x = x.max(-80.0);
    let halvings = (-x * std::f32::consts::LOG2_E).round();
    // ln 2 in two parts, the first with few enough bits that the product is exact.
    let rest = x + halvings * 0.693_359_4 - halvings * 2.121_944_4e-4;
    let series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest / 120.0))));
    let exponent = 127 - halvings as u32; // CAST: a whole number from 0 to 116
    series * f32::from_bits(exponent << 23)
}
