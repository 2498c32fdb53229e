//! The static part of the one-line label that annotation tools show: `name#key=value,key=value#`.

use syn::{Expr, Lit, UnOp};

use crate::args::{Args, Field, literal};

/// `name` without values, the whole `name#k=v#` where every value is a literal, else everything up to the first value
/// that is not.
pub(crate) fn label(name: &str, args: &Args) -> String {
    let mut label = clean(name);
    let mut separator = '#';
    for Field { key, value, .. } in &args.fields {
        label.push(separator);
        label.push_str(key);
        label.push('=');
        match text(value) {
            Some(text) => label.push_str(&clean(&text)),
            None => return label,
        }
        separator = ',';
    }
    match args.root.get().map(|(_, value)| literal(value)) {
        Some(Ok(Lit::Bool(root))) if !root.value => {}
        Some(root) => {
            label.push(separator);
            label.push_str("_r=");
            if root.is_err() {
                return label;
            }
            label.push('1');
            separator = ',';
        }
        None => {}
    }
    if separator == ',' {
        label.push('#');
    }
    label
}

/// What a literal looks like in a label; `None` for what is no literal.
fn text(value: &Expr) -> Option<String> {
    if let Expr::Unary(negative) = value {
        return match (negative.op, literal(&negative.expr)) {
            (UnOp::Neg(_), Ok(number @ (Lit::Int(_) | Lit::Float(_)))) => Some(format!("-{}", number_text(&number)?)),
            _ => None,
        };
    }
    match literal(value) {
        Ok(Lit::Str(text)) => Some(text.value()),
        Ok(Lit::Char(text)) => Some(text.value().to_string()),
        Ok(Lit::Bool(flag)) => Some(u8::from(flag.value).to_string()),
        Ok(Lit::Byte(byte)) => Some(byte.value().to_string()),
        Ok(number) => number_text(&number),
        Err(_) => None,
    }
}

fn number_text(number: &Lit) -> Option<String> {
    match number {
        Lit::Int(int) if matches!(int.suffix(), "f32" | "f64") => Some(int.base10_digits().to_owned()),
        Lit::Int(int) => Some(int.base10_digits().to_owned()),
        Lit::Float(float) if float.suffix() == "f32" => float.base10_parse::<f32>().ok().map(|n| n.to_string()),
        Lit::Float(float) => float.base10_parse::<f64>().ok().map(|n| n.to_string()),
        _ => None,
    }
}

/// A label is one line: NUL and line breaks become a space.
fn clean(text: &str) -> String {
    text.replace(['\0', '\n', '\r'], " ")
}
