//! `#[operator]` on a struct: its fields become states and caches.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parser;
use syn::{Error, Field, Fields, Ident, ItemStruct, LitInt, LitStr, Result, Type};

/// What `#[operator(…)]` says.
#[derive(Default)]
struct Arguments {
    key: Option<Type>,
    name: Option<LitStr>,
    version: Option<LitStr>,
}

/// A field that is a state.
struct State {
    field: Ident,
    ty: Type,
    name: String,
    version: u32,
}

/// The struct without our attributes, and its `Fields`.
pub fn expand(arguments: TokenStream, mut item: ItemStruct) -> Result<TokenStream> {
    let arguments = parse_arguments(arguments)?;
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(&item.generics, "an operator can't be generic: a component holds one"));
    }
    let mut states = Vec::new();
    let mut caches = Vec::new();
    match &mut item.fields {
        Fields::Named(fields) => {
            for field in &mut fields.named {
                match take_state(field)? {
                    Some(state) => states.push(state),
                    None => caches.extend(field.ident.clone()),
                }
            }
        }
        Fields::Unit => {}
        Fields::Unnamed(fields) => return Err(Error::new_spanned(fields, "an operator's fields need names")),
    }
    if let (None, Some(state)) = (&arguments.key, states.first()) {
        return Err(Error::new_spanned(&state.ty, "state is kept per key: say which with `#[operator(key = …)]` on the struct"));
    }
    refuse_same_names(&states)?;
    let implementation = implement(&arguments, &item.ident, &states, &caches);
    Ok(quote! { #item #implementation })
}

fn parse_arguments(tokens: TokenStream) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("key") {
            arguments.key = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("name") {
            arguments.name = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("version") {
            arguments.version = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("`#[operator]` on a struct takes `key`, `name` and `version`"));
        }
        Ok(())
    });
    parser.parse2(tokens)?;
    Ok(arguments)
}

/// The field as a state, if its type is one. Takes `#[state]` off it.
fn take_state(field: &mut Field) -> Result<Option<State>> {
    let Some(ident) = field.ident.clone() else { return Ok(None) };
    let mut state = State { name: plain_name(&ident), field: ident, ty: field.ty.clone(), version: 1 };
    let (ours, others) = field.attrs.drain(..).partition(|attribute| attribute.path().is_ident("state"));
    field.attrs = others;
    let ours: Vec<syn::Attribute> = ours;
    for attribute in &ours {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                state.name = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("version") {
                let version: LitInt = meta.value()?.parse()?;
                state.version = version.base10_parse()?;
                if state.version == 0 {
                    return Err(Error::new_spanned(version, "versions begin with 1"));
                }
            } else {
                return Err(meta.error("`#[state]` takes `name` and `version`"));
            }
            Ok(())
        })?;
    }
    match (is_state(&field.ty), ours.first()) {
        (true, _) => Ok(Some(state)),
        (false, Some(attribute)) => {
            Err(Error::new_spanned(attribute, "`#[state]` goes on a field of type ValueState, ListState or ReducingState"))
        }
        (false, None) => Ok(None),
    }
}

fn is_state(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|segment| ["ValueState", "ListState", "ReducingState"].iter().any(|name| segment.ident == name))
}

/// An identifier as people write it.
pub fn plain_name(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

fn refuse_same_names(states: &[State]) -> Result<()> {
    for (index, state) in states.iter().enumerate() {
        if states[..index].iter().any(|earlier| earlier.name == state.name) {
            return Err(Error::new_spanned(&state.field, format!("there are two states `{}`", state.name)));
        }
    }
    Ok(())
}

fn implement(arguments: &Arguments, ident: &Ident, states: &[State], caches: &[Ident]) -> TokenStream {
    let key = arguments.key.as_ref().map_or_else(|| quote!(::cofferdam_sdk::NoKey), |key| quote!(#key));
    let or_crates = |given: &Option<LitStr>, variable: &str| match given {
        Some(text) => quote!(#text),
        None => quote!(::core::env!(#variable)),
    };
    let name = or_crates(&arguments.name, "CARGO_PKG_NAME");
    let version = or_crates(&arguments.version, "CARGO_PKG_VERSION");
    let fields: Vec<_> = states.iter().map(|state| &state.field).collect();
    let types: Vec<_> = states.iter().map(|state| &state.ty).collect();
    let names: Vec<_> = states.iter().map(|state| &state.name).collect();
    let versions: Vec<_> = states.iter().map(|state| state.version).collect();
    let indices = 0..states.len() as u32;
    quote! {
        impl ::cofferdam_sdk::private::Fields for #ident {
            type Key = #key;

            const NAME: &'static str = #name;

            const VERSION: &'static str = #version;

            fn states() -> ::std::vec::Vec<::cofferdam_sdk::private::StateDescriptor> {
                ::std::vec![#(<#types as ::cofferdam_sdk::private::Handle>::describe(#names, #versions)),*]
            }

            #[allow(unused_variables, reason = "of an operator without state")]
            fn build(scope: &::cofferdam_sdk::private::Scope) -> Self {
                Self {
                    #(#fields: <#types as ::cofferdam_sdk::private::Handle>::attach(scope, #indices, #names),)*
                    #(#caches: ::core::default::Default::default(),)*
                }
            }

            fn undo(&mut self) {
                #(::cofferdam_sdk::private::Handle::undo(&mut self.#fields);)*
            }

            fn write_back(&mut self) {
                #(::cofferdam_sdk::private::Handle::write_back(&mut self.#fields);)*
            }

            fn forget(&mut self) {
                #(::cofferdam_sdk::private::Handle::forget(&mut self.#fields);)*
            }
        }
    }
}
