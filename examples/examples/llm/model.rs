//! A decoder-only transformer: embedding, causal attention with a key-value cache, multi-layer perceptron, greedy head.

use rayon::prelude::*;

use crate::math::{Matrix, add, dot, layer_norm, softmax};
use crate::rng::Rng;
use crate::tokenizer::Token;

/// Sizes of a model.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// Different tokens.
    pub(crate) vocabulary: usize,
    /// Positions that the model can see.
    pub(crate) context: usize,
    /// Values of one position.
    pub(crate) width: usize,
    /// Attention heads; they share the width.
    pub(crate) heads: usize,
    /// Inner width of the perceptron.
    pub(crate) hidden: usize,
    /// Blocks of attention and perceptron.
    pub(crate) layers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { vocabulary: 512, context: 256, width: 384, heads: 6, hidden: 1536, layers: 8 }
    }
}

/// The weights of a model.
pub(crate) struct Transformer {
    config: Config,
    embedding: Matrix,
    positions: Vec<f32>,
    blocks: Vec<Block>,
    head: Matrix,
}

/// Keys and values of the positions seen so far, one pair per layer.
pub(crate) struct Cache {
    layers: Vec<LayerCache>,
}

struct LayerCache {
    keys: Vec<f32>,
    values: Vec<f32>,
}

struct Block {
    layer: usize,
    width: usize,
    heads: usize,
    query: Matrix,
    key: Matrix,
    value: Matrix,
    output: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Transformer {
    /// A model whose weights follow from `seed` alone.
    #[zprof::trace("llm.build", layers = config.layers, width = config.width, seed = seed)]
    pub(crate) fn new(config: Config, seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        Self {
            embedding: Matrix::random(config.vocabulary, config.width, rng),
            positions: (0..config.context * config.width).map(|_| rng.uniform() * 0.1).collect(),
            blocks: (0..config.layers).map(|layer| Block::random(layer, &config, rng)).collect(),
            head: Matrix::random(config.vocabulary, config.width, rng),
            config,
        }
    }

    /// A cache with no positions in it.
    pub(crate) fn cache(&self) -> Cache {
        let room = self.config.context * self.config.width;
        let empty = || LayerCache { keys: Vec::with_capacity(room), values: Vec::with_capacity(room) };
        Cache { layers: self.blocks.iter().map(|_| empty()).collect() }
    }

    /// Runs `tokens` after what the cache holds, and returns the logits of what follows the last of them.
    #[zprof::trace("llm.forward", seqlen = tokens.len())]
    pub(crate) fn forward(&self, tokens: &[Token], cache: &mut Cache) -> Vec<f32> {
        let mut stream = self.embed(tokens, cache.layers[0].keys.len() / self.config.width);
        for (block, cache) in self.blocks.iter().zip(&mut cache.layers) {
            let attended = block.attend(&stream, cache);
            add(&mut stream, &attended);
            let expanded = block.perceptron(&stream);
            add(&mut stream, &expanded);
        }
        let last = &stream[stream.len() - self.config.width..];
        zprof::scope!("llm.head", vocabulary = self.config.vocabulary, {
            self.head.apply(&layer_norm(last, self.config.width))
        })
    }

    #[zprof::trace("llm.embed", seqlen = tokens.len(), first = first)]
    fn embed(&self, tokens: &[Token], first: usize) -> Vec<f32> {
        let width = self.config.width;
        let mut stream = Vec::with_capacity(tokens.len() * width);
        for (token, position) in tokens.iter().zip(self.positions[first * width..].chunks_exact(width)) {
            stream.extend(self.embedding.row(usize::from(*token)).iter().zip(position).map(|(a, b)| a + b));
        }
        stream
    }
}

impl Block {
    fn random(layer: usize, config: &Config, rng: &mut Rng) -> Self {
        let Config { width, heads, hidden, .. } = *config;
        Self {
            layer,
            width,
            heads,
            query: Matrix::random(width, width, rng),
            key: Matrix::random(width, width, rng),
            value: Matrix::random(width, width, rng),
            output: Matrix::random(width, width, rng),
            up: Matrix::random(hidden, width, rng),
            down: Matrix::random(width, hidden, rng),
        }
    }

    /// Every position looks at itself and at those before it, in the cache or among the new ones.
    #[zprof::trace("llm.attention", self.layer, seqlen = stream.len() / self.width)]
    fn attend(&self, stream: &[f32], cache: &mut LayerCache) -> Vec<f32> {
        let normed = layer_norm(stream, self.width);
        let seen = cache.keys.len() / self.width;
        let queries = self.query.apply(&normed);
        cache.keys.extend(self.key.apply(&normed));
        cache.values.extend(self.value.apply(&normed));

        let cache = &*cache;
        let head_width = self.width / self.heads;
        let mut mixed = vec![0.0; stream.len()];
        mixed.par_chunks_mut(head_width).enumerate().for_each(|(task, mixed)| {
            let (position, head) = (task / self.heads, task % self.heads);
            let query = &queries[task * head_width..][..head_width];
            self.mix(head, query, seen + position + 1, cache, mixed);
        });
        self.output.apply(&mixed)
    }

    /// One head of one position: the values it sees, weighted by how well their keys fit its query.
    #[zprof::trace("llm.mix", head = head, visible = visible, level = verbose)]
    fn mix(&self, head: usize, query: &[f32], visible: usize, cache: &LayerCache, mixed: &mut [f32]) {
        let slot = |position: usize| position * self.width + head * query.len();
        let scale = 1.0 / (query.len() as f32).sqrt(); // CAST: a head is at most a few hundred wide, exact in f32
        let key = |position: usize| &cache.keys[slot(position)..][..query.len()];
        let mut weights: Vec<f32> = (0..visible).map(|position| dot(query, key(position)) * scale).collect();
        softmax(&mut weights);
        for (position, weight) in weights.iter().enumerate() {
            let values = &cache.values[slot(position)..][..query.len()];
            for (mixed, value) in mixed.iter_mut().zip(values) {
                *mixed += weight * value;
            }
        }
    }

    #[zprof::trace("llm.perceptron", self.layer, seqlen = stream.len() / self.width)]
    fn perceptron(&self, stream: &[f32]) -> Vec<f32> {
        let mut inner = self.up.apply(&layer_norm(stream, self.width));
        for value in &mut inner {
            *value = value.max(0.0);
        }
        self.down.apply(&inner)
    }
}
