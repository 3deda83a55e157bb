//! `#[operator]` on an `impl`: its marked methods become ports and hooks.

use proc_macro2::{Group, Ident as Word, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Result, Type};

use crate::fields::plain_name;

/// What a marked method takes, beside `self`.
struct Method {
    name: Ident,
    /// The first parameter's type, of those that have one of their own: an input's value.
    first: Option<Type>,
    /// Whether `meta` is wanted.
    meta: bool,
    /// The type of `out`, if it is wanted.
    output: Option<Type>,
}

#[derive(Default)]
struct Marked {
    inputs: Vec<Method>,
    open: Option<Method>,
    finish: Option<Method>,
    snapshot: Option<Method>,
    checkpoint_complete: Option<Method>,
    close: Option<Method>,
}

/// The marks of methods.
const MARKS: [&str; 6] = ["input", "open", "finish", "snapshot", "checkpoint_complete", "close"];

/// The `impl` without our marks, the operator's methods, and its exports.
pub fn expand(arguments: TokenStream, mut item: ItemImpl) -> Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[operator]` on an `impl` takes no arguments: those go on the struct"));
    }
    if let Some((_, path, _)) = &item.trait_ {
        return Err(Error::new_spanned(path, "`#[operator]` goes on the operator's own `impl`, not on a trait's"));
    }
    let operator = operator_name(&item.self_ty)?;
    let marked = take_marked(&mut item)?;
    let Some(input) = marked.inputs.first() else {
        return Err(Error::new_spanned(&item.self_ty, "an operator needs an input: a method marked `#[input]`"));
    };
    if let Some(second) = marked.inputs.get(1) {
        let message = format!("an operator has one input for now, and this one has `{}` already", input.name);
        return Err(Error::new_spanned(&second.name, message));
    }
    let owned = owned(input.first.as_ref().unwrap_or(&item.self_ty))?;
    let implementation = implement(&operator, &marked, &owned);
    let hooks = marked.hooks();
    Ok(quote! {
        #item
        #implementation
        ::cofferdam_sdk::__export!(#operator, [#(#hooks),*]);
    })
}

impl Marked {
    /// The hooks that the operator has, by their marks.
    fn hooks(&self) -> impl Iterator<Item = Ident> {
        let Marked { finish, snapshot, checkpoint_complete, close, .. } = self;
        let hooks = [("finish", finish), ("snapshot", snapshot), ("checkpoint_complete", checkpoint_complete), ("close", close)];
        hooks.into_iter().filter(|(_, method)| method.is_some()).map(|(name, _)| Ident::new(name, Span::call_site()))
    }

    /// Where the method with a mark goes, if it is not an input's.
    fn hook(&mut self, mark: &Attribute) -> &mut Option<Method> {
        let is = |name: &str| mark.path().is_ident(name);
        if is("open") {
            &mut self.open
        } else if is("finish") {
            &mut self.finish
        } else if is("snapshot") {
            &mut self.snapshot
        } else if is("checkpoint_complete") {
            &mut self.checkpoint_complete
        } else {
            &mut self.close
        }
    }
}

fn operator_name(ty: &Type) -> Result<Ident> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    }
    .ok_or_else(|| Error::new_spanned(ty, "`#[operator]` goes on the `impl` of a struct that is named by one word"))
}

/// Finds the marked methods, and takes their marks off.
fn take_marked(item: &mut ItemImpl) -> Result<Marked> {
    let mut marked = Marked::default();
    for member in &mut item.items {
        let ImplItem::Fn(function) = member else { continue };
        let Some(mark) = take_mark(&mut function.attrs)? else { continue };
        let method = read_method(function, &mark)?;
        if mark.path().is_ident("input") {
            marked.inputs.push(method);
        } else if let Some(old) = marked.hook(&mark).replace(method) {
            return Err(Error::new_spanned(&mark, format!("`{}` has this mark already", old.name)));
        }
    }
    Ok(marked)
}

fn take_mark(attributes: &mut Vec<Attribute>) -> Result<Option<Attribute>> {
    let is_mark = |attribute: &Attribute| MARKS.iter().any(|mark| attribute.path().is_ident(mark));
    let (mut marks, others): (Vec<_>, Vec<_>) = attributes.drain(..).partition(is_mark);
    *attributes = others;
    let mark = marks.pop();
    if let Some(other) = marks.pop() {
        return Err(Error::new_spanned(other, "a method has one mark"));
    }
    if let Some(mark) = &mark {
        mark.meta.require_path_only()?;
    }
    Ok(mark)
}

fn read_method(function: &ImplItemFn, mark: &Attribute) -> Result<Method> {
    let signature = &function.sig;
    let mut method = Method { name: signature.ident.clone(), first: None, meta: false, output: None };
    if let Some(asyncness) = &signature.asyncness {
        return Err(Error::new_spanned(asyncness, "operators are synchronous"));
    }
    let mut parameters = signature.inputs.iter();
    match parameters.next() {
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() && receiver.mutability.is_some() => {}
        _ => return Err(Error::new_spanned(signature, "a marked method begins with `&mut self`")),
    }
    let types = parameters.filter_map(|parameter| match parameter {
        FnArg::Typed(parameter) => Some(parameter.ty.as_ref()),
        FnArg::Receiver(_) => None,
    });
    let mut types = types.peekable();
    let is = |names: &[&str]| names.iter().any(|name| mark.path().is_ident(name));
    if !is(&["finish", "close"]) {
        method.first = types.next().cloned();
    }
    if mark.path().is_ident("input") && method.first.is_none() {
        return Err(Error::new_spanned(signature, "an input takes the record's value: `fn name(&mut self, value: V, …)`"));
    }
    let emits = is(&["input", "finish"]);
    for ty in types {
        match ty {
            Type::Reference(reference) if reference.mutability.is_some() && emits && method.output.is_none() => {
                method.output = Some(reference.elem.as_ref().clone());
            }
            Type::Reference(reference) if is_meta(&reference.elem) && emits && !method.meta && method.output.is_none() => {
                method.meta = true;
            }
            other => return Err(Error::new_spanned(other, expected(mark))),
        }
    }
    Ok(method)
}

/// What a method with this mark takes.
fn expected(mark: &Attribute) -> &'static str {
    if mark.path().is_ident("open") {
        "`#[open]` takes `&mut self` and `context: &Context`"
    } else if mark.path().is_ident("snapshot") {
        "`#[snapshot]` takes `&mut self` and `checkpoint: u64`"
    } else if mark.path().is_ident("checkpoint_complete") {
        "`#[checkpoint_complete]` takes `&mut self` and `checkpoint: u64`"
    } else if mark.path().is_ident("close") {
        "`#[close]` takes `&mut self`"
    } else if mark.path().is_ident("finish") {
        "`#[finish]` takes `&mut self`, and if wanted `meta: &Meta<K>` and `out: &mut Output<V>`, in this order"
    } else {
        "`#[input]` takes `&mut self` and a value, and if wanted `meta: &Meta<K>` and `out: &mut Output<V>`, in this order"
    }
}

fn is_meta(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "Meta"))
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

fn implement(operator: &Ident, marked: &Marked, owned: &TokenStream) -> TokenStream {
    let methods = marked.inputs.iter().chain(&marked.finish);
    let output = match methods.filter_map(|method| method.output.as_ref()).next() {
        Some(output) => quote!(#output),
        None => quote!(::cofferdam_sdk::private::NoOutput),
    };
    let names = marked.inputs.iter().map(|input| plain_name(&input.name));
    let types: Vec<_> = marked.inputs.iter().filter_map(|input| input.first.as_ref()).collect();
    let schemas = types.iter().map(|ty| quote_spanned!(ty.span()=> <#ty as ::cofferdam_sdk::Schema>::schema()));
    let ports = 0..marked.inputs.len() as u32;
    let calls = marked.inputs.iter().zip(&types).map(|(input, ty)| {
        let value = quote_spanned!(ty.span()=> ::cofferdam_sdk::private::input::<#ty>(value)?);
        call(input, Some(value))
    });
    let open = marked
        .open
        .as_ref()
        .map_or_else(|| quote!(::core::result::Result::Ok(())), |open| call(open, open.first.as_ref().map(|_| quote!(context))));
    let finish = marked.finish.as_ref().map_or_else(|| quote!(::core::result::Result::Ok(())), |finish| call(finish, None));
    let of_checkpoint = |method: &Method| call(method, method.first.as_ref().map(|_| quote!(checkpoint)));
    let snapshot = marked.snapshot.as_ref().map_or_else(|| quote!(::core::result::Result::Ok(())), of_checkpoint);
    let checkpoint_complete = marked.checkpoint_complete.as_ref().map(of_checkpoint);
    let close = marked.close.as_ref().map(|close| call(close, None));
    quote! {
        #[allow(unused_variables, reason = "methods take what they want")]
        impl ::cofferdam_sdk::private::Operator for #operator {
            type Input = #owned;

            type Output = #output;

            fn inputs() -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
                ::std::vec![#((#names, #schemas)),*]
            }

            fn on_open(&mut self, context: &::cofferdam_sdk::Context) -> ::cofferdam_sdk::Result<()> {
                #open
            }

            #[inline]
            fn on_record(
                &mut self,
                port: u32,
                value: &[u8],
                meta: &::cofferdam_sdk::Meta<'_, <Self as ::cofferdam_sdk::private::Fields>::Key>,
                out: &mut Self::Output,
            ) -> ::cofferdam_sdk::Result<()> {
                match port {
                    #(#ports => #calls,)*
                    _ => ::core::result::Result::Err(::cofferdam_sdk::Error::new("there is no such input")),
                }
            }

            #[inline]
            fn on_finish(
                &mut self,
                meta: &::cofferdam_sdk::Meta<'_, <Self as ::cofferdam_sdk::private::Fields>::Key>,
                out: &mut Self::Output,
            ) -> ::cofferdam_sdk::Result<()> {
                #finish
            }

            fn on_snapshot(&mut self, checkpoint: u64) -> ::cofferdam_sdk::Result<()> {
                #snapshot
            }

            fn on_checkpoint_complete(&mut self, checkpoint: u64) {
                #checkpoint_complete
            }

            fn on_close(&mut self) {
                #close
            }
        }
    }
}

/// A call of the method with what it takes.
fn call(method: &Method, first: Option<TokenStream>) -> TokenStream {
    let name = &method.name;
    let meta = method.meta.then(|| quote!(meta));
    let out = method.output.as_ref().map(|_| quote!(out));
    let arguments = first.into_iter().chain(meta).chain(out);
    quote!(self.#name(#(#arguments),*))
}
