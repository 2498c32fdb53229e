//! Placeholders of format strings, which names do not fill in: they are found so that a mistake can be reported.

use syn::Ident;

/// The first `{…}` of a text that a format string would fill in: an argument's name or number, or none, and a format.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{') {
        let start = from + open;
        let rest = &text[start + 1..];
        if rest.starts_with('{') {
            from = start + 2;
            continue;
        }
        let end = rest.find(['{', '}'])?;
        let argument = rest[..end].split(':').next().unwrap_or_default();
        let is_argument = argument.is_empty()
            || argument.bytes().all(|byte| byte.is_ascii_digit())
            || syn::parse_str::<Ident>(argument).is_ok();
        // `}}` behind it is a brace, and so this is no argument's end.
        let closes = rest[end..].starts_with('}') && !rest[end..].starts_with("}}");
        if is_argument && closes {
            return Some(&text[start..=start + 1 + end]);
        }
        from = start + 1;
    }
    None
}
