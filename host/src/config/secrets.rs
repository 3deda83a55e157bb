//! What is shown of a job file: all but the values of variables, which may be secrets. They are found line by line and not by reading the
//! file, so that they are hidden as well where it can't be read.

/// The text with stars for what must not be shown; its places are those of `text`.
pub(super) fn hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut table, mut open) = (false, 0);
    for line in text.split_inclusive('\n') {
        let (start, words) = (line.trim_start(), line.to_ascii_lowercase());
        let grants = words.contains("grant") || words.contains("environ");
        if start.starts_with('[') && open <= 0 {
            (table, open) = (grants, 0);
        }
        let listed = grants || open > 0;
        hide(line, table || listed, &mut shown);
        if listed && !start.starts_with('[') {
            open += brackets(line);
        }
    }
    shown
}

/// How many brackets a line opens and does not close.
fn brackets(line: &str) -> i32 {
    line.chars().map(|c| i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'))).sum()
}

/// Hides in what stands in quotes what follows a name and `=`; and, where everything is about grants, all of what has no name.
fn hide(line: &str, grants: bool, shown: &mut String) {
    let mut rest = line;
    while let Some(quote) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(quote + 1);
        shown.push_str(before);
        let end = quoted.find(&before[quote..]).unwrap_or(quoted.len());
        let (inside, after) = quoted.split_at(end);
        match inside.split_once('=') {
            Some((name, value)) if grants || is_name(name) => {
                shown.push_str(name);
                shown.push('=');
                stars(value, shown);
            }
            None if grants && !is_name(inside) => stars(inside, shown),
            // The value of a key, and not an element of a list.
            None if grants && before.trim_end_matches(['"', '\'']).trim_end().ends_with('=') => stars(inside, shown),
            _ => shown.push_str(inside),
        }
        let closed = after.len().min(1);
        shown.push_str(&after[..closed]);
        rest = &after[closed..];
    }
    shown.push_str(rest);
}

fn stars(text: &str, shown: &mut String) {
    text.chars().for_each(|c| if c.is_control() { shown.push(c) } else { shown.extend(std::iter::repeat_n('*', c.len_utf8())) });
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_hidden_wherever_they_stand() {
        for text in [
            "[operator.grants]\nenvironment = [\"TOKEN=s3cret\", \"TZ\"]\n",
            "[operator.grants]\nenvironment = [\"TOKEN=s3cret]\n",
            "grant = { environment = [\"TOKEN=s3cret\"] }\n",
            "grants = [\"TOKEN=s3cret\"]\n",
            "grants = [\n  'TOKEN=s3cret',\n  \"TWO WORDS=s3cret\"\n]\n",
            "[operator.grants.environment]\nTOKEN = \"s3cret\"\n",
            "[operator.grants]\nenvironment = { TOKEN = \"s3cret\" }\n",
            "[operator.grants]\nenvironment = \"s3cret!\"\n",
            "enviroment = [\"TOKEN=s3cret\"]\n",
            "anything = \"TOKEN=s3cretä\"\n",
        ] {
            let shown = hidden(text);
            assert!(!shown.contains("s3cret"), "{shown}");
            assert_eq!((shown.len(), shown.matches('\n').count()), (text.len(), text.matches('\n').count()));
        }
    }

    #[test]
    fn all_else_is_shown() {
        for text in [
            "[operator.grants]\nenvironment = [\"TZ\", 3]\n[[sink]]\nuid = \"out\"\npath = \"a b\"\n",
            "grants = { environment = [\"TZ\"] }\ncomponent = \"a.wasm\"\nconfig = { query = \"a b = c\" }\n",
            "name = \"x\n[job]\nlimits = { memory = \"64MiB\" } # it's = fine\n",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
