//! The macros of `cofferdam-sdk`, which re-exports and documents them. What they generate is small: names and types go into traits of
//! the SDK, and everything that does something is there.

mod fields;
mod implement;
mod methods;
mod ports;
mod schema;
mod serde_attributes;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Item, parse_macro_input};

/// Makes a struct an operator's, or its `impl` the operator's methods, and exports it. The crate's front page describes both.
#[proc_macro_attribute]
pub fn operator(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let result = match parse_macro_input!(item as Item) {
        Item::Struct(item) => fields::expand(arguments.into(), item),
        Item::Impl(item) => methods::expand(arguments.into(), item),
        other => Err(Error::new_spanned(other, "`#[operator]` goes on a struct and on its `impl`")),
    };
    result.unwrap_or_else(Error::into_compile_error).into()
}

/// Derives serde's `Serialize` and `Deserialize`, and `Schema`; documented where the SDK re-exports it.
#[proc_macro_attribute]
pub fn record(arguments: TokenStream, item: TokenStream) -> TokenStream {
    if !arguments.is_empty() {
        let error = Error::new_spanned(proc_macro2::TokenStream::from(arguments), "`#[record]` takes no arguments");
        return error.into_compile_error().into();
    }
    let item = parse_macro_input!(item as DeriveInput);
    quote! {
        #[derive(::cofferdam_sdk::serde::Serialize, ::cofferdam_sdk::serde::Deserialize, ::cofferdam_sdk::Schema)]
        #[serde(crate = "::cofferdam_sdk::serde")]
        #item
    }
    .into()
}

/// Derives `Schema`, `Encode` and `Decode` for a type that has serde's `Serialize` and `Deserialize`. `#[record]` derives all at once.
#[proc_macro_derive(Schema, attributes(serde))]
pub fn derive_schema(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    schema::expand(item).unwrap_or_else(Error::into_compile_error).into()
}
