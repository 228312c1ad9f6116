//! Java's login lines: `module required name="value" other=value;`.

/// Return the value of `name` in a line. Whitespace around `=` is optional. The value may be in single or double
/// quotes; otherwise it ends at whitespace or the semicolon.
pub(super) fn option(line: &str, name: &str) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || c == ';';
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(ends);
        if rest.is_empty() {
            return None;
        }
        let (word, after) = split_before(rest, |c| ends(c) || c == '=');
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'');
        let (value, after) = match quote {
            Some(quote) => unquoted(&value[1..], quote)?,
            None => {
                let (word, after) = split_before(value, ends);
                (word.to_owned(), after)
            }
        };
        if word == name {
            return Some(value);
        }
        rest = after;
    }
}

/// Return the text up to the closing quote, with Java's escapes resolved, and the rest after it.
fn unquoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            char if char == quote => return Some((value, &text[at + char.len_utf8()..])),
            char => value.push(char),
        }
    }
    None
}

/// Split the text before the first character for which `ends` returns true.
fn split_before(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_line_gives_user_and_password() {
        let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        for (options, user, password) in [
            ("username=\"u\" password=\"p=1\";", "u", "p=1"),
            ("username='u' password='p \"1;';", "u", "p \"1;"),
            ("username=u password=\"p\";", "u", "p"),
            (
                "username=\"u\" password=\"q\\\"u\\\\o\\t\";",
                "u",
                "q\"u\\o\t",
            ),
            ("username=u password=p=1;", "u", "p=1"),
            ("username = \"u\"\n  password\t=p", "u", "p"),
            ("xusername=\"x\" username=\"u\" password=\"p\";", "u", "p"),
            (
                "a=\"username=x\" username=\"\u{fc}\" password=\"\";",
                "\u{fc}",
                "",
            ),
            ("password=\"p\" username=u", "u", "p"),
        ] {
            let line = format!("{module} {options}");
            assert_eq!(
                option(&line, "username").as_deref(),
                Some(user),
                "{options}"
            );
            assert_eq!(
                option(&line, "password").as_deref(),
                Some(password),
                "{options}"
            );
        }
    }

    #[test]
    fn other_lines_give_nothing() {
        for line in [
            "",
            "Module required;",
            "Module required xusername=\"secret\";",
            "Module required username=\"secret",
            "= ; = username",
        ] {
            assert_eq!(option(line, "username"), None, "{line}");
        }
        assert_eq!(
            option("username=; password=secret", "username").as_deref(),
            Some("")
        );
    }
}
