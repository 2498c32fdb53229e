//! The short name that TensorFlow's readers show for an operation: `MatMul` for `Model/MatMul_1:MatMul`.

use std::borrow::Cow;

/// The display name of an event, where it differs from its name.
pub(crate) fn display_name(name: &str) -> Option<Cow<'_, str>> {
    let shown = short_name(name);
    (shown != name).then_some(shown)
}

fn short_name(name: &str) -> Cow<'_, str> {
    let Some((left, right)) = name.split_once(':') else {
        return Cow::Borrowed(memcpy_name(name).unwrap_or_else(|| trim_end(name)));
    };
    if left == "Iterator" {
        let last = name.rfind("::").map_or(name, |at| &name[at + 2..]);
        return Cow::Owned(format!("Iterator::{last}"));
    }
    if is_op_name(left) && is_op_type(right) {
        return Cow::Borrowed(right);
    }
    let candidate = if right.is_empty() { without_number(left.rsplit('/').next().unwrap_or(left)) } else { right };
    match jax_op_type(candidate) {
        Some(op) => Cow::Borrowed(op),
        None if right.is_empty() => Cow::Borrowed(candidate),
        None => Cow::Borrowed(trim_end(name)),
    }
}

/// The names of copies between host and device, in whatever case they come.
fn memcpy_name(name: &str) -> Option<&'static str> {
    const COPIES: [&str; 4] = ["MemcpyHToD", "MemcpyDToH", "MemcpyDToD", "MemcpyHToH"];
    COPIES.into_iter().find(|copy| name.get(..copy.len()).is_some_and(|start| start.eq_ignore_ascii_case(copy)))
}

fn trim_end(name: &str) -> &str {
    name.trim_end_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r'])
}

fn is_op_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'.')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_./>-".contains(&byte))
}

fn is_op_type(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_uppercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The operation that a JAX name begins with: `transpose` for `transpose[perm=(0,1)]`.
fn jax_op_type(text: &str) -> Option<&str> {
    let (op, tail) = text.find('[').map_or((text, ""), |at| text.split_at(at));
    let mut bytes = op.bytes();
    let is_op = bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let tail_fits = tail.is_empty() || (tail.ends_with(']') && !tail.contains('\n'));
    (is_op && tail_fits).then_some(op)
}

/// Cuts a final `_<digits>`.
fn without_number(text: &str) -> &str {
    match text.rsplit_once('_') {
        Some((stem, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_tensorflow_shows_them() {
        let cases = [
            ("simple", None),
            ("trail ", Some("trail")),
            ("  lead", None),
            ("with#hash", None),
            ("", None),
            ("Op:Type", Some("Type")),
            ("A/B_2:MatMul", Some("MatMul")),
            ("Iterator::Batch::Map", Some("Iterator::Map")),
            ("jit(f)/add:add", Some("add")),
            ("foo:", Some("foo")),
            ("x/transpose_3:transpose[perm=(0,1)]", Some("transpose")),
            ("Xx>Yy:Zz", Some("Zz")),
            (".x:Tt", Some("Tt")),
            ("MEMCPYHtoD:x", Some("x")),
            ("MemcpyHToD", None),
            ("a:b:c", None),
            ("MEMCPYHtoD_1", Some("MemcpyHToD")),
            ("memcpyDToD xx ", Some("MemcpyDToD")),
            ("x_1:", Some("x")),
            ("a/b_c_12:", Some("b_c")),
            ("5:", Some("5")),
            ("Iterator:foo", Some("Iterator::Iterator:foo")),
            ("a b:c", Some("c")),
            ("A:op_type[x]", Some("op_type")),
            ("_A:b", Some("b")),
            ("é:Op", None),
            ("Type::method", None),
        ];
        for (name, shown) in cases {
            assert_eq!(display_name(name).as_deref(), shown, "{name:?}");
        }
    }
}
