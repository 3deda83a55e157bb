//! JSON values as text for people: `name: value` lines, indented, and tables where all items of a list look alike. It knows nothing
//! about what it shows, so text and JSON always say the same.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

/// The value as lines, without the last line break.
pub(super) fn render(value: &Value) -> String {
    lines(value).join("\n")
}

/// A table: rows of cells under a head, with the given columns aligned to the right.
pub(super) fn table(head: &[&str], rows: Vec<Vec<String>>, right: &[usize]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head).add_rows(rows);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("  {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| field(&name.replace(['-', '_'], " "), value)).collect(),
        Value::Array(items) => items.iter().flat_map(item).collect(),
        plain => vec![short(plain).unwrap_or_default()],
    }
}

fn field(name: &str, value: &Value) -> Vec<String> {
    if let Some(text) = short(value) {
        return vec![format!("{name}: {text}")];
    }
    let mut below = vec![format!("{name}:")];
    match value.as_array().and_then(|items| uniform(items)) {
        Some(table) => below.extend(table.lines().map(str::to_owned)),
        None => below.extend(lines(value).into_iter().map(|line| format!("  {line}"))),
    }
    below
}

fn item(value: &Value) -> Vec<String> {
    let mark = |(number, line): (usize, String)| if number == 0 { format!("- {line}") } else { format!("  {line}") };
    short(value).map_or_else(|| lines(value), |text| vec![text]).into_iter().enumerate().map(mark).collect()
}

/// A value that fits on the line of its name.
fn short(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".into()),
        Value::Bool(true) => Some("yes".into()),
        Value::Bool(false) => Some("no".into()),
        Value::Number(number) => Some(number.to_string()),
        // Text from a file may hold anything, and a terminal obeys control characters.
        Value::String(text) => {
            Some(text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect())
        }
        Value::Object(fields) => fields.is_empty().then(|| "none".into()),
        Value::Array(items) if items.is_empty() => Some("none".into()),
        Value::Array(items) => {
            let plain = |item: &Value| (!item.is_array() && !item.is_object()).then(|| short(item)).flatten();
            items.iter().map(plain).collect::<Option<Vec<_>>>().map(|items| items.join(", "))
        }
    }
}

/// Items that all have the same fields, and short ones, as a table; numbers to the right.
fn uniform(items: &[Value]) -> Option<String> {
    let objects: Vec<&Map<String, Value>> = items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let names: Vec<&String> = objects.first()?.keys().collect();
    let row = |object: &&Map<String, Value>| {
        let same = object.keys().eq(names.iter().copied());
        if same { object.values().map(short).collect::<Option<Vec<_>>>() } else { None }
    };
    let rows: Vec<Vec<String>> = objects.iter().map(row).collect::<Option<_>>()?;
    let numeric = |&column: &usize| objects.iter().all(|object| object.values().nth(column).is_some_and(Value::is_number));
    let right: Vec<usize> = (0..names.len()).filter(numeric).collect();
    let head: Vec<String> = names.iter().map(|name| name.replace(['-', '_'], " ")).collect();
    Some(table(&head.iter().map(String::as_str).collect::<Vec<_>>(), rows, &right))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::render;

    #[test]
    fn fields_are_lines_and_lists_of_like_things_are_tables() {
        let value = json!({
            "name": "delays",
            "finish-hook": true,
            "restored": null,
            "states": [
                { "name": "count", "kind": "value", "version": 1 },
                { "name": "all", "kind": "list", "version": 12 },
            ],
            "imports": ["a", "b"],
            "nothing": [],
            "where": { "path": "x\u{1b}[2J", "bytes": 3 },
            "mixed": [{ "a": 1 }, { "b": [[1], 2] }],
        });
        let expected = "\
name: delays
finish hook: yes
restored: none
states:
  name   kind   version
  count  value        1
  all    list        12
imports: a, b
nothing: none
where:
  path: x\\u{1b}[2J
  bytes: 3
mixed:
  - a: 1
  - b:
      - 1
      - 2";
        assert_eq!(render(&value), expected);
    }
}
