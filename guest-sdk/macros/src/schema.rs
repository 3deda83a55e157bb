//! `#[derive(Schema)]`: the structure of a type, and its way to bytes by postcard.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Generics, Lifetime, LifetimeParam, Result, parse_quote};

use crate::fields::plain_name;
use crate::serde_attributes;

/// `Schema`, `Encode` and `Decode` for the type.
pub fn expand(item: DeriveInput) -> Result<TokenStream> {
    serde_attributes::read(&item.attrs)?;
    let structure = match &item.data {
        Data::Struct(data) => struct_structure(&data.fields)?,
        Data::Enum(data) => enum_structure(data)?,
        Data::Union(data) => return Err(Error::new_spanned(data.union_token, "a union has no schema")),
    };
    let ident = &item.ident;
    let generics = with_schemas(item.generics.clone());
    let (parameters, arguments, conditions) = generics.split_for_impl();
    let mut writing = generics.clone();
    writing.make_where_clause().predicates.push(parse_quote!(Self: ::cofferdam_sdk::serde::Serialize));
    let writing = writing.where_clause;
    let mut reading = generics.clone();
    reading.params.insert(0, LifetimeParam::new(Lifetime::new("'__de", proc_macro2::Span::call_site())).into());
    reading.make_where_clause().predicates.push(parse_quote!(Self: ::cofferdam_sdk::serde::Deserialize<'__de>));
    let (reading_parameters, _, reading) = reading.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters ::cofferdam_sdk::Schema for #ident #arguments #conditions {
            fn structure(to: &mut ::cofferdam_sdk::Structure) {
                to.named::<Self>(|to| { #structure });
            }
        }

        #[automatically_derived]
        impl #parameters ::cofferdam_sdk::Encode for #ident #arguments #writing {
            #[inline]
            fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
                ::cofferdam_sdk::private::write_postcard(self, out);
            }
        }

        #[automatically_derived]
        impl #reading_parameters ::cofferdam_sdk::Decode<'__de> for #ident #arguments #reading {
            #[inline]
            fn decode(bytes: &'__de [u8]) -> ::core::result::Result<Self, ::cofferdam_sdk::Malformed> {
                ::cofferdam_sdk::private::read_postcard(bytes)
            }
        }
    })
}

/// Each type parameter has a schema.
fn with_schemas(mut generics: Generics) -> Generics {
    let types: Vec<_> = generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    for ty in types {
        generics.make_where_clause().predicates.push(parse_quote!(#ty: ::cofferdam_sdk::Schema));
    }
    generics
}

/// The structure of a struct: serde writes one of one unnamed field as that field.
fn struct_structure(fields: &Fields) -> Result<TokenStream> {
    match fields {
        Fields::Unit => Ok(quote!(to.word("unit");)),
        Fields::Unnamed(unnamed) if unnamed.unnamed.len() == 1 => {
            let field = &unnamed.unnamed[0];
            if serde_attributes::read(&field.attrs)?.skip {
                return Err(Error::new_spanned(field, "nothing of the struct would be written"));
            }
            let ty = &field.ty;
            Ok(quote!(to.part::<#ty>();))
        }
        fields => fields_structure(fields),
    }
}

/// `{name:type,…}` or `(type,…)`.
fn fields_structure(fields: &Fields) -> Result<TokenStream> {
    let (open, close) = match fields {
        Fields::Named(_) => ("{", "}"),
        Fields::Unnamed(_) => ("(", ")"),
        Fields::Unit => return Ok(TokenStream::new()),
    };
    let mut parts = Vec::new();
    for field in fields {
        if let Some(part) = field_structure(field, parts.is_empty())? {
            parts.push(part);
        }
    }
    Ok(quote! {
        to.word(#open);
        #(#parts)*
        to.word(#close);
    })
}

fn field_structure(field: &Field, first: bool) -> Result<Option<TokenStream>> {
    let said = serde_attributes::read(&field.attrs)?;
    if said.skip {
        return Ok(None);
    }
    let comma = if first { "" } else { "," };
    let name = said.rename.or_else(|| field.ident.as_ref().map(plain_name));
    let before = name.map_or_else(|| comma.to_owned(), |name| format!("{comma}{name}:"));
    let ty = &field.ty;
    Ok(Some(quote! {
        to.word(#before);
        to.part::<#ty>();
    }))
}

/// `enum{name,name(type),name{name:type}}`.
fn enum_structure(data: &DataEnum) -> Result<TokenStream> {
    let mut variants = Vec::new();
    for variant in &data.variants {
        let said = serde_attributes::read(&variant.attrs)?;
        if said.skip {
            return Err(Error::new_spanned(variant, "a variant that is skipped moves the numbers of those that follow it"));
        }
        let comma = if variants.is_empty() { "" } else { "," };
        let name = said.rename.unwrap_or_else(|| plain_name(&variant.ident));
        let before = format!("{comma}{name}");
        let fields = fields_structure(&variant.fields)?;
        variants.push(quote! {
            to.word(#before);
            #fields
        });
    }
    Ok(quote! {
        to.word("enum{");
        #(#variants)*
        to.word("}");
    })
}
