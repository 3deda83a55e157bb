//! What `#[operator]` writes for an `impl`: the `Operator` of its marked methods.

use proc_macro2::{Group, Ident as Word, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Ident, Index, Result, Type};

use crate::methods::{Marked, Method};
use crate::ports::{Input, Output};

/// The implementation. `outputs` are the operator's, in the order of their ports.
pub fn implement(operator: &Ident, marked: &Marked, outputs: &[&Output]) -> Result<TokenStream> {
    let inputs = &marked.inputs;
    let types: Vec<&Type> = inputs.iter().filter_map(|input| input.method.first.as_ref()).collect();
    let owned = types.iter().map(|ty| owned(ty)).collect::<Result<Vec<_>>>()?;
    // As `Harness::process` does it.
    let main = &owned[inputs.iter().position(|input| !input.broadcast).unwrap_or(0)];
    let ports = inputs.iter().zip(&types).map(|(input, ty)| describe(input, ty));
    let output_types = outputs.iter().rev().fold(quote!(()), |rest, Output { ty, .. }| quote_spanned!(ty.span()=> (#ty, #rest)));
    let output_names = outputs.iter().map(|output| &output.name);
    let keyless = inputs.iter().filter(|input| input.broadcast).flat_map(|input| &input.method.outputs).map(
        |Output { ty, .. }| quote_spanned!(ty.span()=> const _: () = ::cofferdam_sdk::private::sends_without_key::<#operator, #ty>();),
    );
    let numbers = 0..inputs.len() as u32;
    let calls = inputs.iter().zip(&types).map(|(input, ty)| {
        let value = quote_spanned!(ty.span()=> ::cofferdam_sdk::private::input::<#ty>(value)?);
        let meta = if input.broadcast { quote!(&meta.without_key()) } else { quote!(meta) };
        call(&input.method, Some(value), &meta, outputs)
    });
    let hook = |method: &Method, argument: TokenStream| call(method, method.first.as_ref().map(|_| argument), &quote!(meta), outputs);
    let ok = || quote!(::core::result::Result::Ok(()));
    let open = marked.open.as_ref().map_or_else(ok, |open| hook(open, quote!(context)));
    let finish = marked.finish.as_ref().map_or_else(ok, |finish| hook(finish, quote!()));
    let snapshot = marked.snapshot.as_ref().map_or_else(ok, |snapshot| hook(snapshot, quote!(checkpoint)));
    let checkpoint_complete = marked.checkpoint_complete.as_ref().map(|complete| hook(complete, quote!(checkpoint)));
    let checkpoint_aborted = marked.checkpoint_aborted.as_ref().map(|aborted| hook(aborted, quote!(checkpoint)));
    let close = marked.close.as_ref().map(|close| hook(close, quote!()));
    Ok(quote! {
        #(#keyless)*

        #[allow(unused_variables, reason = "methods take what they want")]
        impl ::cofferdam_sdk::private::Operator for #operator {
            type Input = #main;

            type Outputs = #output_types;

            const INPUTS: &'static [::cofferdam_sdk::private::InputPort] = &[#(#ports),*];

            const OUTPUTS: &'static [&'static str] = &[#(#output_names),*];

            fn on_open(&mut self, context: &::cofferdam_sdk::Context) -> ::cofferdam_sdk::Result<()> {
                #open
            }

            #[inline]
            fn on_record(
                &mut self,
                port: u32,
                value: &[u8],
                meta: &::cofferdam_sdk::Meta<'_, <Self as ::cofferdam_sdk::private::Fields>::Key>,
                outputs: &mut Self::Outputs,
            ) -> ::cofferdam_sdk::Result<()> {
                match port {
                    #(#numbers => #calls,)*
                    _ => ::core::result::Result::Err(::cofferdam_sdk::Error::new("there is no such input")),
                }
            }

            #[inline]
            fn on_finish(
                &mut self,
                meta: &::cofferdam_sdk::Meta<'_, <Self as ::cofferdam_sdk::private::Fields>::Key>,
                outputs: &mut Self::Outputs,
            ) -> ::cofferdam_sdk::Result<()> {
                #finish
            }

            fn on_snapshot(&mut self, checkpoint: u64) -> ::cofferdam_sdk::Result<()> {
                #snapshot
            }

            fn on_checkpoint_complete(&mut self, checkpoint: u64) {
                #checkpoint_complete
            }

            fn on_checkpoint_aborted(&mut self, checkpoint: u64) {
                #checkpoint_aborted
            }

            fn on_close(&mut self) {
                #close
            }
        }
    })
}

/// An input as the SDK takes it.
fn describe(input: &Input, ty: &Type) -> TokenStream {
    let Input { name, broadcast, waits_for, .. } = input;
    let waits_for = match waits_for {
        None => quote!(::core::option::Option::None),
        Some(name) => quote!(::core::option::Option::Some(#name)),
    };
    let schema = quote_spanned!(ty.span()=> <#ty as ::cofferdam_sdk::Schema>::schema);
    quote!(::cofferdam_sdk::private::InputPort { name: #name, value_schema: #schema, broadcast: #broadcast, waits_for: #waits_for })
}

/// A call of the method with what it takes.
fn call(method: &Method, first: Option<TokenStream>, meta: &TokenStream, outputs: &[&Output]) -> TokenStream {
    let name = &method.name;
    let meta = method.meta.as_ref().map(|_| meta.clone());
    let places = method.outputs.iter().filter_map(|wanted| outputs.iter().position(|output| output.name == wanted.name));
    let arguments = first.into_iter().chain(meta).chain(places.map(output_at));
    quote!(self.#name(#(#arguments),*))
}

/// The way to an output: `(first, (second, (third, ())))`.
fn output_at(place: usize) -> TokenStream {
    let (first, rest) = (Index::from(0), Index::from(1));
    let way = (0..place).map(|_| &rest);
    quote!(&mut outputs #(.#way)* .#first)
}

/// An input's type as one that borrows nothing, for whoever makes such values.
fn owned(ty: &Type) -> Result<TokenStream> {
    let Type::Reference(reference) = ty else { return Ok(all_static(ty.to_token_stream())) };
    match reference.elem.as_ref() {
        Type::Path(path) if path.path.is_ident("str") => Ok(quote!(::std::string::String)),
        Type::Slice(slice) => {
            let element = &slice.elem;
            Ok(quote!(::std::vec::Vec<#element>))
        }
        _ => Err(Error::new_spanned(ty, "only `&str` and `&[u8]` are borrowed from the batch: take other values themselves")),
    }
}

/// The tokens with every lifetime as `'static`.
fn all_static(tokens: TokenStream) -> TokenStream {
    let mut in_lifetime = false;
    let replace = |token| {
        let after_apostrophe = std::mem::take(&mut in_lifetime);
        match token {
            TokenTree::Ident(name) if after_apostrophe => TokenTree::Ident(Word::new("static", name.span())),
            TokenTree::Group(group) => TokenTree::Group(Group::new(group.delimiter(), all_static(group.stream()))),
            TokenTree::Punct(punct) => {
                in_lifetime = punct.as_char() == '\'';
                TokenTree::Punct(punct)
            }
            other => other,
        }
    };
    tokens.into_iter().map(replace).collect()
}
