//! `grants` of an operator. Values may be secrets, so no message shows them; see `secrets`.

use super::section::Section;
use crate::plan::{Grants, Variable};

const HOW: &str = "name each variable, with a value or with the host's: `environment = [\"REGION=eu\", \"TZ\"]`";

/// What the operator that `operator` is about may see.
pub(super) fn read(operator: &mut Section<'_>) -> Grants {
    let mut grants = Grants::default();
    let Some(mut section) = operator.section("grants") else { return grants };
    for text in section.texts("environment", HOW) {
        let (name, value) = match text.get_ref().split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.get_ref().as_str(), None),
        };
        let fault = if !is_name(name) {
            format!("`{}` is no name of a variable: letters, digits and `_`, the first one no digit", name.escape_debug())
        } else if value.is_some_and(|value| value.contains('\0')) {
            format!("the value of `{name}` has a zero character, where it would end")
        } else if grants.environment.iter().any(|variable| variable.name == name) {
            format!("`{name}` is granted twice")
        } else {
            grants.environment.push(Variable { name: name.to_owned(), value: value.map(str::to_owned) });
            continue;
        };
        section.fault(text.span(), fault, HOW);
    }
    section.finish();
    grants
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
