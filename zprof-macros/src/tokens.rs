//! Walks over tokens that nobody parses: where angle brackets close, what is a word, what lies inside a group.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// Counts the angle brackets that are open. `->` and `=>` close none.
#[derive(Default)]
pub(crate) struct Angles {
    open: usize,
    arrow: bool,
}

impl Angles {
    /// Whether any is open.
    pub(crate) fn are_open(&self) -> bool {
        self.open != 0
    }

    /// Takes the next token; true where it stands outside of all angle brackets and is none itself.
    pub(crate) fn outside(&mut self, token: &TokenTree) -> bool {
        let TokenTree::Punct(punct) = token else {
            self.arrow = false;
            return self.open == 0;
        };
        let arrow = std::mem::replace(&mut self.arrow, matches!(punct.as_char(), '-' | '='));
        match punct.as_char() {
            '<' => self.open += 1,
            '>' if !arrow => {
                self.open = self.open.saturating_sub(1);
                return false;
            }
            _ => {}
        }
        self.open == 0
    }
}

/// Where the first token outside of angle brackets stands that `is` says yes to.
pub(crate) fn position(tokens: &[TokenTree], is: impl Fn(&TokenTree) -> bool) -> Option<usize> {
    let mut angles = Angles::default();
    tokens.iter().position(|token| angles.outside(token) && is(token))
}

/// The pieces between the commas that stand outside of all brackets.
pub(crate) fn between_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut angles = Angles::default();
    let mut pieces = vec![Vec::new()];
    for token in tokens {
        let outside = angles.outside(&token);
        match pieces.last_mut() {
            Some(piece) if !(outside && is_punct(&token, ',')) => piece.push(token),
            _ => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

pub(crate) fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

pub(crate) fn word(token: &TokenTree) -> Option<&Ident> {
    match token {
        TokenTree::Ident(word) => Some(word),
        _ => None,
    }
}

pub(crate) fn is_word(token: &TokenTree, text: &str) -> bool {
    word(token).is_some_and(|word| word == text)
}

pub(crate) fn group(token: &TokenTree, delimiter: Delimiter) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// How many tokens the attributes at the front make.
pub(crate) fn attributes(tokens: &[TokenTree]) -> usize {
    let mut length = 0;
    while let [sharp, brackets, ..] = &tokens[length..] {
        if !is_punct(sharp, '#') || group(brackets, Delimiter::Bracket).is_none() {
            break;
        }
        length += 2;
    }
    length
}

/// Tokens without the invisible groups around them.
pub(crate) fn visible(tokens: &[TokenTree]) -> Vec<TokenTree> {
    match tokens {
        [token] => match group(token, Delimiter::None) {
            Some(inner) => visible(&inner.stream().into_iter().collect::<Vec<_>>()),
            None => tokens.to_vec(),
        },
        _ => tokens.to_vec(),
    }
}
