//! The static part of the one-line label that annotation tools show: `name#key=value,key=value#`.

use syn::{Expr, Lit, UnOp};

use crate::args::{Args, Field, Sort, literal};

/// What is known of a label when the program is compiled.
#[derive(Debug, PartialEq)]
pub(crate) struct Label {
    /// `name` without values, the whole `name#k=v#` where every value is a literal, else everything up to the first
    /// value that is not.
    pub(crate) text: String,
    /// How many of the values stand in it, the root's mark last.
    pub(crate) given: usize,
}

impl Label {
    /// The label of what has no values.
    pub(crate) fn plain(name: &str) -> Self {
        Self { text: clean(name), given: 0 }
    }

    pub(crate) fn of(name: &str, args: &Args) -> Self {
        let mut text = clean(name);
        let mut given = 0;
        let mut separator = '#';
        for Field { key, value, sort, .. } in &args.fields {
            text.push(separator);
            text.push_str(key);
            text.push('=');
            let known = if matches!(sort, Sort::Display | Sort::Debug) { None } else { literal_text(value) };
            match known {
                Some(value) => text.push_str(&clean(&value)),
                None => return Self { text, given },
            }
            given += 1;
            separator = ',';
        }
        match args.root.get().map(literal) {
            Some(Ok(Lit::Bool(root))) if !root.value => {}
            Some(root) => {
                text.push(separator);
                text.push_str("_r=");
                if root.is_err() {
                    return Self { text, given };
                }
                text.push('1');
                given += 1;
                separator = ',';
            }
            None => {}
        }
        if let Some((_, key)) = [(&args.sends, "_p"), (&args.receives, "_c")].iter().find(|flow| flow.0.get().is_some())
        {
            text.push(separator);
            text.push_str(key);
            text.push('=');
            return Self { text, given };
        }
        if separator == ',' {
            text.push('#');
        }
        Self { text, given }
    }
}

/// What a literal looks like in a label; `None` for what is no literal.
fn literal_text(value: &Expr) -> Option<String> {
    if let Expr::Unary(negative) = value {
        return match (negative.op, literal(&negative.expr)) {
            (UnOp::Neg(_), Ok(Lit::Int(zero))) if zero.base10_digits() == "0" && !zero.suffix().starts_with('f') => {
                Some("0".to_owned())
            }
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
        // As the program prints them: with no more digits than the type keeps.
        Lit::Int(int) if int.suffix() == "f32" => int.base10_parse::<f32>().ok().map(|n| n.to_string()),
        Lit::Int(int) if int.suffix() == "f64" => int.base10_parse::<f64>().ok().map(|n| n.to_string()),
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

#[cfg(test)]
mod tests {
    use super::Label;
    use crate::args::{Args, Place};
    use crate::errors::Errors;

    fn of(arguments: &str) -> (String, usize) {
        let mut errors = Errors::default();
        let args = Args::read(Place::Span, arguments.parse().expect("tokens"), &mut errors);
        assert!(errors.into_tokens().is_none(), "{arguments} has mistakes");
        let Label { text, given } = Label::of(&args.name.get().expect("a name").value(), &args);
        (text, given)
    }

    #[test]
    fn a_label_ends_at_the_first_value_that_is_not_known() {
        let cases = [
            (r#""plain""#, "plain", 0),
            (r#""llm.step", step = i"#, "llm.step#step=", 0),
            (r#""a", b, c = 1"#, "a#b=", 0),
            (r#""a", b = 1, c, d = 2"#, "a#b=1,c=", 1),
            (r#""a", b = 1_000_u64, c = 0xff, d = -1, e = 1.50, f = 2f32"#, "a#b=1000,c=255,d=-1,e=1.5,f=2#", 5),
            (
                r#""a", b = 16777217f32, c = -16777217_f32, d = 12345678901234567890_f64, e = 1e23"#,
                "a#b=16777216,c=-16777216,d=12345678901234567000,e=100000000000000000000000#",
                4,
            ),
            (r#""a", b = -0, c = -0_i8, d = -0.0, e = -0_f32"#, "a#b=0,c=0,d=-0,e=-0#", 4),
            (r#""a", text = "x,y=z", letter = 'c', yes = true, no = false"#, "a#text=x,y=z,letter=c,yes=1,no=0#", 4),
            (r#""a", text = "two\nlines\0""#, "a#text=two lines #", 1),
            (r#""a", root = true"#, "a#_r=1#", 1),
            (r#""a", root = false"#, "a", 0),
            (r#""a", root = true, b = 1"#, "a#b=1,_r=1#", 2),
            (r#""a", root = is_root, b = 1"#, "a#b=1,_r=", 1),
            (r#""a", r#type = 1, level = info, filter = 3"#, "a#type=1#", 1),
            (r#""a", b = 1 + 2"#, "a#b=", 0),
            (r#""a", b = 1, c = %2, d = ?3"#, "a#b=1,c=", 1),
            (r#""a{{b}} {c d} {", e = 1"#, "a{b} {c d} {#e=1#", 1),
            (r#""a", b = (1)"#, "a#b=", 0),
            (r#""a", sends = flow"#, "a#_p=", 0),
            (r#""a", receives = f, root = true, b = 1"#, "a#b=1,_r=1,_c=", 2),
        ];
        for (arguments, text, given) in cases {
            assert_eq!(of(arguments), (text.to_owned(), given), "{arguments}");
        }
    }
}
