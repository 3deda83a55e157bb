//! `#[operator]` on an `impl`: its marked methods become ports and hooks.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Result, Type};

use crate::implement::implement;
use crate::ports::{Input, InputMark, Output, check_inputs, collect_outputs, read_output};

/// What a marked method takes, beside `self`.
pub struct Method {
    pub name: Ident,
    /// The first parameter's type, of those that have one of their own: an input's value.
    pub first: Option<Type>,
    /// The type of `meta`, if it is wanted.
    pub meta: Option<Type>,
    /// The outputs that are wanted.
    pub outputs: Vec<Output>,
}

/// The marked methods.
#[derive(Default)]
pub struct Marked {
    pub inputs: Vec<Input>,
    pub open: Option<Method>,
    pub finish: Option<Method>,
    pub snapshot: Option<Method>,
    pub checkpoint_complete: Option<Method>,
    pub checkpoint_aborted: Option<Method>,
    pub close: Option<Method>,
}

/// The marks of methods.
const MARKS: [&str; 7] = ["input", "open", "finish", "snapshot", "checkpoint_complete", "checkpoint_aborted", "close"];

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
    if marked.inputs.is_empty() {
        return Err(Error::new_spanned(&item.self_ty, "an operator needs an input: a method marked `#[input]`"));
    }
    check_inputs(&marked.inputs)?;
    let outputs = collect_outputs(marked.inputs.iter().map(|input| &input.method).chain(&marked.finish))?;
    let implementation = implement(&operator, &marked, &outputs)?;
    let hooks = marked.hooks();
    Ok(quote! {
        #item
        #implementation
        ::cofferdam_sdk::__export!(#operator, [migration #(, #hooks)*]);
    })
}

impl Marked {
    /// The hooks that the operator has, by their marks.
    fn hooks(&self) -> impl Iterator<Item = Ident> {
        let Marked { finish, snapshot, checkpoint_complete, checkpoint_aborted, close, .. } = self;
        let hooks = [
            ("finish", finish),
            ("snapshot", snapshot),
            ("checkpoint_complete", checkpoint_complete),
            ("checkpoint_aborted", checkpoint_aborted),
            ("close", close),
        ];
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
        } else if is("checkpoint_aborted") {
            &mut self.checkpoint_aborted
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
            marked.inputs.push(Input::new(InputMark::read(&mark)?, method)?);
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
    if let Some(mark) = mark.as_ref().filter(|mark| !mark.path().is_ident("input")) {
        mark.meta.require_path_only()?;
    }
    Ok(mark)
}

fn read_method(function: &ImplItemFn, mark: &Attribute) -> Result<Method> {
    let signature = &function.sig;
    let mut method = Method { name: signature.ident.clone(), first: None, meta: None, outputs: Vec::new() };
    if let Some(asyncness) = &signature.asyncness {
        return Err(Error::new_spanned(asyncness, "operators are synchronous"));
    }
    let mut parameters = signature.inputs.iter();
    match parameters.next() {
        Some(FnArg::Receiver(receiver)) if receiver.reference.is_some() && receiver.mutability.is_some() => {}
        _ => return Err(Error::new_spanned(signature, "a marked method begins with `&mut self`")),
    }
    let mut parameters = parameters.filter_map(|parameter| match parameter {
        FnArg::Typed(parameter) => Some(parameter),
        FnArg::Receiver(_) => None,
    });
    let is = |names: &[&str]| names.iter().any(|name| mark.path().is_ident(name));
    if !is(&["finish", "close"]) {
        method.first = parameters.next().map(|parameter| parameter.ty.as_ref().clone());
    }
    if mark.path().is_ident("input") && method.first.is_none() {
        return Err(Error::new_spanned(signature, "an input takes the record's value: `fn name(&mut self, value: V, …)`"));
    }
    let emits = is(&["input", "finish"]);
    for parameter in parameters {
        match parameter.ty.as_ref() {
            Type::Reference(reference) if reference.mutability.is_some() && emits => {
                let output = read_output(&parameter.pat, &reference.elem)?;
                if method.outputs.iter().any(|earlier| earlier.name == output.name) {
                    let message =
                        format!("output `{}` is there twice in one method; a `_` at the beginning makes no other port", output.name);
                    return Err(Error::new_spanned(&parameter.pat, message));
                }
                method.outputs.push(output);
            }
            Type::Reference(reference) if is_meta(&reference.elem) && emits && method.meta.is_none() && method.outputs.is_empty() => {
                method.meta = Some(reference.elem.as_ref().clone());
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
    } else if mark.path().is_ident("checkpoint_aborted") {
        "`#[checkpoint_aborted]` takes `&mut self` and `checkpoint: u64`"
    } else if mark.path().is_ident("close") {
        "`#[close]` takes `&mut self`"
    } else if mark.path().is_ident("finish") {
        "`#[finish]` takes `&mut self`, and if wanted `meta: &Meta<K>` and outputs as `out: &mut Output<V>`, in this order"
    } else {
        "`#[input]` takes `&mut self` and a value, and if wanted `meta: &Meta<K>` and outputs as `out: &mut Output<V>`, in this order"
    }
}

fn is_meta(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "Meta"))
}
