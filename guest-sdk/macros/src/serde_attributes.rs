//! Which attributes of serde postcard can live with.

use syn::{Attribute, Error, LitStr, Result};

/// Harmless: they concern names, checks and generated code, or reading what was never written.
const ALLOWED: [&str; 9] =
    ["alias", "bound", "borrow", "crate", "default", "deny_unknown_fields", "expecting", "rename_all", "rename_all_fields"];

/// What no name has, because they are the signs of a schema.
const SIGNS: [char; 9] = ['(', ')', '{', '}', '<', '>', ',', ':', '^'];

/// What the attributes of a type, a variant or a field say.
#[derive(Default)]
pub struct Said {
    /// Its name, if it is not the one in the code.
    pub rename: Option<String>,
    /// Whether it is never written nor read.
    pub skip: bool,
}

/// Reads serde's attributes.
///
/// # Errors
/// If one of them changes how the value is laid out.
pub fn read(attributes: &[Attribute]) -> Result<Said> {
    let mut said = Said::default();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            match name.as_str() {
                "skip" => said.skip = true,
                "rename" if meta.input.peek(syn::Token![=]) => said.rename = Some(read_name(&meta.value()?.parse()?)?),
                allowed if ALLOWED.contains(&allowed) => skip_value(&meta)?,
                _ => return Err(refuse(&meta, &name)),
            }
            Ok(())
        })?;
    }
    Ok(said)
}

/// A name that can stand in a schema.
fn read_name(text: &LitStr) -> Result<String> {
    let name = text.value();
    if name.is_empty() || name.contains(SIGNS) {
        return Err(Error::new_spanned(text, "a name in records and state is not empty, and has none of ( ) { } < > , : ^"));
    }
    Ok(name)
}

/// Passes over `= …` or `(…)`.
fn skip_value(meta: &syn::meta::ParseNestedMeta<'_>) -> Result<()> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let content;
        syn::parenthesized!(content in meta.input);
        content.parse::<proc_macro2::TokenStream>()?;
    }
    Ok(())
}

fn refuse(meta: &syn::meta::ParseNestedMeta<'_>, name: &str) -> Error {
    let why = match name {
        "flatten" | "tag" | "content" | "untagged" => "postcard can't read back what it makes",
        "skip_serializing" | "skip_serializing_if" | "skip_deserializing" => {
            "what is written by place and not by name can't leave a field out; `skip` leaves it out always"
        }
        _ => "it changes how the value is laid out, and the schema would not say how",
    };
    meta.error(format!("`serde({name})` can't be used in records and state: {why}"))
}
