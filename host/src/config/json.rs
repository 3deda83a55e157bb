//! An operator's `config`, as it reaches the operator: TOML turned into JSON.

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::faults::Faults;

/// The same table as JSON. Dates and times become strings; a number that JSON does not have is a fault.
pub(super) fn table(table: &DeTable<'_>, faults: &Faults) -> Value {
    Value::Object(table.iter().map(|(key, entry)| (key.get_ref().to_string(), value(entry, faults))).collect())
}

fn value(value: &Spanned<DeValue<'_>>, faults: &Faults) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Datetime(time) => Value::from(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| self::value(item, faults)).collect(),
        DeValue::Table(entries) => table(entries, faults),
        DeValue::Integer(_) | DeValue::Float(_) => number(value.get_ref()).map(Value::Number).unwrap_or_else(|| {
            let message = format!("JSON has no number {}", faults.quote(value.span()));
            faults.add(value.span(), message, "`config` reaches the operator as JSON: write another number, or a string");
            Value::Null
        }),
    }
}

fn number(value: &DeValue<'_>) -> Option<Number> {
    match value {
        DeValue::Integer(digits) => {
            let signed = i64::from_str_radix(digits.as_str(), digits.radix()).map(Number::from);
            signed.or_else(|_| u64::from_str_radix(digits.as_str(), digits.radix()).map(Number::from)).ok()
        }
        DeValue::Float(digits) => digits.as_str().parse().ok().and_then(Number::from_f64),
        _ => None,
    }
}
