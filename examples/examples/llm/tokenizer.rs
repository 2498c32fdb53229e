//! A byte-pair tokenizer that learns its vocabulary from the text it is given.

use std::collections::BTreeMap;

/// A place in the vocabulary: 0 to 255 are the bytes, larger ones are merged pairs in the order they were learnt.
pub(crate) type Token = u16;

/// A vocabulary of bytes and of pairs that were frequent in the training text.
pub(crate) struct Tokenizer {
    merges: Vec<(Token, Token)>,
}

impl Tokenizer {
    /// Learns pairs, the most frequent first, until there are `vocabulary` tokens or no pair occurs twice.
    #[zprof::trace("llm.train_tokenizer", bytes = text.len(), vocabulary = vocabulary)]
    pub(crate) fn train(text: &str, vocabulary: usize) -> Self {
        let mut tokens = bytes(text);
        let mut merges = Vec::new();
        for merged in (256..).take(vocabulary.saturating_sub(256)) {
            let mut counts = BTreeMap::<(Token, Token), usize>::new();
            for pair in tokens.windows(2) {
                *counts.entry((pair[0], pair[1])).or_default() += 1;
            }
            // The last of equals in a map sorted by pair: the same choice in every run.
            let Some((&pair, &count)) = counts.iter().max_by_key(|(_, count)| **count) else { break };
            if count < 2 {
                break;
            }
            merges.push(pair);
            merge(&mut tokens, pair, merged);
        }
        Self { merges }
    }

    /// The tokens of `text`: pairs merged in the order they were learnt.
    #[zprof::trace("llm.encode", bytes = text.len())]
    pub(crate) fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens = bytes(text);
        for (&pair, merged) in self.merges.iter().zip(256..) {
            merge(&mut tokens, pair, merged);
        }
        tokens
    }

    /// The text of `tokens`; bytes that are no UTF-8 become the replacement character.
    #[zprof::trace("llm.decode", tokens = tokens.len())]
    pub(crate) fn decode(&self, tokens: &[Token]) -> String {
        let mut text = Vec::new();
        let mut pending: Vec<Token> = tokens.iter().rev().copied().collect();
        while let Some(token) = pending.pop() {
            match u8::try_from(token) {
                Ok(byte) => text.push(byte),
                Err(_) => {
                    let (left, right) = self.merges[usize::from(token) - 256];
                    pending.extend([right, left]);
                }
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn bytes(text: &str) -> Vec<Token> {
    text.bytes().map(Token::from).collect()
}

/// Replaces every `pair`, from the left, by `merged`.
fn merge(tokens: &mut Vec<Token>, pair: (Token, Token), merged: Token) {
    let mut kept = 0;
    let mut next = 0;
    while next < tokens.len() {
        let here = next + 1 < tokens.len() && (tokens[next], tokens[next + 1]) == pair;
        tokens[kept] = if here { merged } else { tokens[next] };
        next += if here { 2 } else { 1 };
        kept += 1;
    }
    tokens.truncate(kept);
}
