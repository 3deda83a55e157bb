//! `#[operator]` on a struct: its fields become states and caches.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, Field, Fields, Ident, ItemStruct, LitInt, LitStr, Result, Token, Type};

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
    ttl: Option<Ttl>,
    /// Versions, and what rewrites their values.
    migrations: Vec<(LitInt, Expr)>,
}

/// How long a state's values live.
#[derive(Clone, Copy)]
struct Ttl {
    ms: u64,
    from_access: bool,
}

/// The types of state that is kept per key.
const KEYED_STATES: &[&str] = &["ValueState", "ListState", "MapState", "ReducingState", "AggregatingState"];
/// The types of state that is kept per subtask.
const OPERATOR_STATES: &[&str] = &["OperatorListState", "UnionListState", "BroadcastState"];

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
    if let (None, Some(state)) = (&arguments.key, states.iter().find(|state| !is_one_of(&state.ty, OPERATOR_STATES))) {
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
    let mut state = State { name: plain_name(&ident), field: ident, ty: field.ty.clone(), version: 1, ttl: None, migrations: Vec::new() };
    let (ours, others) = field.attrs.drain(..).partition(|attribute| attribute.path().is_ident("state"));
    field.attrs = others;
    let ours: Vec<syn::Attribute> = ours;
    let mut from = None;
    for attribute in &ours {
        attribute.parse_nested_meta(|meta| read_setting(&meta, &mut state, &mut from))?;
    }
    match (from, &mut state.ttl) {
        (Some((_, from_access)), Some(ttl)) => ttl.from_access = from_access,
        (Some((text, _)), None) => return Err(Error::new_spanned(text, "`ttl_from` means nothing without `ttl`")),
        (None, _) => {}
    }
    check_migrations(&state)?;
    if let (Some(_), Some(attribute), true) = (&state.ttl, ours.first(), is_one_of(&field.ty, OPERATOR_STATES)) {
        return Err(Error::new_spanned(attribute, "only state that is kept per key has a time to live"));
    }
    match (is_state(&field.ty), ours.first()) {
        (true, _) => Ok(Some(state)),
        (false, Some(attribute)) => {
            let message = format!("`#[state]` goes on a field of one of the types {}", [KEYED_STATES, OPERATOR_STATES].concat().join(", "));
            Err(Error::new_spanned(attribute, message))
        }
        (false, None) => Ok(None),
    }
}

/// Reads one setting of `#[state(…)]`. `from` gets what `ttl_from` says, with the text that says it.
fn read_setting(meta: &ParseNestedMeta<'_>, state: &mut State, from: &mut Option<(LitStr, bool)>) -> Result<()> {
    if meta.path.is_ident("name") {
        state.name = meta.value()?.parse::<LitStr>()?.value();
    } else if meta.path.is_ident("version") {
        let version: LitInt = meta.value()?.parse()?;
        state.version = version.base10_parse()?;
        if state.version == 0 {
            return Err(Error::new_spanned(version, "versions begin with 1"));
        }
    } else if meta.path.is_ident("ttl") {
        state.ttl = Some(Ttl { ms: read_duration(&meta.value()?.parse()?)?, from_access: false });
    } else if meta.path.is_ident("ttl_from") {
        let text: LitStr = meta.value()?.parse()?;
        let from_access = match text.value().as_str() {
            "write" => false,
            "access" => true,
            _ => return Err(Error::new_spanned(text, "`ttl_from` is \"write\" or \"access\"")),
        };
        *from = Some((text, from_access));
    } else if meta.path.is_ident("migrate") {
        let arms;
        syn::parenthesized!(arms in meta.input);
        state.migrations.extend(Punctuated::<_, Token![,]>::parse_terminated_with(&arms, read_migration)?);
    } else {
        return Err(meta.error("`#[state]` takes `name`, `version`, `migrate`, `ttl` and `ttl_from`"));
    }
    Ok(())
}

/// `VERSION => FUNCTION`.
fn read_migration(input: ParseStream<'_>) -> Result<(LitInt, Expr)> {
    let version = input.parse::<LitInt>()?;
    input.parse::<Token![=>]>()?;
    Ok((version, input.parse()?))
}

/// Each other version has one migration at most.
fn check_migrations(state: &State) -> Result<()> {
    let mut seen = vec![state.version];
    for (literal, _) in &state.migrations {
        let version = literal.base10_parse::<u32>()?;
        if version == state.version {
            let message = format!("{version} is the state's own version: raise it with `version = {}`", u64::from(version) + 1);
            return Err(Error::new_spanned(literal, message));
        }
        if version == 0 || seen.contains(&version) {
            return Err(Error::new_spanned(literal, "versions begin with 1, and each has one migration"));
        }
        seen.push(version);
    }
    Ok(())
}

/// A duration as job files write it, in milliseconds.
fn read_duration(text: &LitStr) -> Result<u64> {
    let duration = humantime::parse_duration(&text.value());
    let duration = duration.map_err(|error| Error::new_spanned(text, format!("no duration, such as \"10m\" or \"1h 30m\": {error}")))?;
    let ms = u64::try_from(duration.as_millis()).ok().filter(|&ms| ms > 0 && duration.subsec_nanos().is_multiple_of(1_000_000));
    ms.ok_or_else(|| Error::new_spanned(text, "a time to live is a whole number of milliseconds, at least one"))
}

fn is_state(ty: &Type) -> bool {
    is_one_of(ty, KEYED_STATES) || is_one_of(ty, OPERATOR_STATES)
}

fn is_one_of(ty: &Type, names: &[&str]) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|segment| names.iter().any(|name| segment.ident == name))
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
    let declared: Vec<_> = states.iter().map(declare).collect();
    let indices = 0..states.len() as u32;
    let migrations = states.iter().map(migrations);
    quote! {
        impl ::cofferdam_sdk::private::Fields for #ident {
            type Key = #key;

            const NAME: &'static str = #name;

            const VERSION: &'static str = #version;

            fn states() -> ::std::vec::Vec<::cofferdam_sdk::private::StateDescriptor> {
                ::std::vec![#(<#types as ::cofferdam_sdk::private::Handle>::describe(#declared)),*]
            }

            fn migrations() -> ::std::vec::Vec<::std::vec::Vec<::cofferdam_sdk::private::Migration>> {
                ::std::vec![#(#migrations),*]
            }

            #[allow(unused_variables, reason = "of an operator without state")]
            fn build(scope: &::cofferdam_sdk::private::Scope) -> Self {
                Self {
                    #(#fields: <#types as ::cofferdam_sdk::private::Handle>::attach(scope, #indices, #declared),)*
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

/// How values of a state's other versions are rewritten.
fn migrations(state: &State) -> TokenStream {
    let ty = &state.ty;
    let migrations = state.migrations.iter().map(|(version, migrate)| {
        let new = quote_spanned!(migrate.span()=> ::cofferdam_sdk::private::Migration::new::<<#ty as ::cofferdam_sdk::private::Handle>::Kept, _, _>);
        quote!(#new(#version, #migrate))
    });
    quote!(::std::vec![#(#migrations),*])
}

/// What the struct says about a state, as the SDK takes it.
fn declare(state: &State) -> TokenStream {
    let State { name, version, .. } = state;
    let ttl = match state.ttl {
        None => quote!(::core::option::Option::None),
        Some(Ttl { ms, from_access }) => {
            quote!(::core::option::Option::Some(::cofferdam_sdk::private::Ttl { ms: #ms, from_access: #from_access }))
        }
    };
    quote!(::cofferdam_sdk::private::Declared { name: #name, version: #version, ttl: #ttl })
}
