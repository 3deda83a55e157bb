//! The operator's ports: what `#[input(…)]` says, and which parameters are outputs.

use quote::ToTokens;
use syn::{Attribute, Error, GenericArgument, Ident, LitStr, Meta, Pat, PathArguments, Result, Type};

use crate::fields::plain_name;
use crate::methods::Method;

/// What `#[input(…)]` says.
#[derive(Default)]
pub struct InputMark {
    name: Option<LitStr>,
    broadcast: bool,
    waits_for: Option<LitStr>,
}

/// An input and its method.
pub struct Input {
    pub name: String,
    pub broadcast: bool,
    pub waits_for: Option<LitStr>,
    pub method: Method,
}

/// An output, by the parameter that it is.
pub struct Output {
    pub name: String,
    pub ty: Type,
}

impl InputMark {
    /// Reads the mark.
    pub fn read(mark: &Attribute) -> Result<InputMark> {
        let mut read = InputMark::default();
        if matches!(mark.meta, Meta::Path(_)) {
            return Ok(read);
        }
        mark.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                read.name = Some(meta.value()?.parse()?);
            } else if meta.path.is_ident("broadcast") {
                read.broadcast = true;
            } else if meta.path.is_ident("waits_for") {
                read.waits_for = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("`#[input]` takes `name = \"…\"`, `broadcast` and `waits_for = \"…\"`"));
            }
            Ok(())
        })?;
        Ok(read)
    }
}

impl Input {
    /// The input of a method.
    pub fn new(mark: InputMark, method: Method) -> Result<Input> {
        let InputMark { name, broadcast, waits_for } = mark;
        let text = name.as_ref().map_or_else(|| plain_name(&method.name), LitStr::value);
        match &name {
            Some(literal) => check_name(&text, literal)?,
            None => check_name(&text, &method.name)?,
        }
        if let (true, Some(meta)) = (broadcast, method.meta.as_ref().filter(|meta| names_a_key(meta))) {
            return Err(Error::new_spanned(meta, "a record of a broadcast input has no key: take `meta: &Meta`"));
        }
        Ok(Input { name: text, broadcast, waits_for, method })
    }
}

/// Ports are named in job files.
fn check_name(name: &str, place: &impl ToTokens) -> Result<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_good) {
        return Ok(());
    }
    Err(Error::new_spanned(place, format!("`{name}` can't name a port: names consist of letters from a to z, digits, `-` and `_`")))
}

/// Whether a type is `Meta<K>` with a key.
fn names_a_key(meta: &Type) -> bool {
    let Type::Path(path) = meta else { return false };
    let Some(PathArguments::AngleBracketed(arguments)) = path.path.segments.last().map(|segment| &segment.arguments) else { return false };
    let is_key = |argument: &GenericArgument| match argument {
        GenericArgument::Type(Type::Path(key)) => key.path.segments.last().is_none_or(|segment| segment.ident != "NoKey"),
        GenericArgument::Type(_) => true,
        _ => false,
    };
    arguments.args.iter().any(is_key)
}

/// Checks what the inputs say about each other.
pub fn check_inputs(inputs: &[Input]) -> Result<()> {
    for (index, input) in inputs.iter().enumerate() {
        if inputs[..index].iter().any(|earlier| earlier.name == input.name) {
            return Err(Error::new_spanned(&input.method.name, format!("there are two inputs `{}`", input.name)));
        }
        let Some(waits_for) = &input.waits_for else { continue };
        let fault = |message: String| Err(Error::new_spanned(waits_for, message));
        let name = waits_for.value();
        match inputs.iter().find(|other| other.name == name) {
            None => return fault(format!("there is no input `{name}` that could be waited for")),
            Some(other) if !other.broadcast => {
                return fault(format!("only broadcast inputs can be waited for, and `{name}` is not marked `#[input(broadcast)]`"));
            }
            Some(_) if waits_for_itself(inputs, input) => return fault(format!("`{}` would wait for itself for ever", input.name)),
            Some(_) => {}
        }
    }
    Ok(())
}

fn waits_for_itself(inputs: &[Input], input: &Input) -> bool {
    let next = |input: &Input| {
        let name = input.waits_for.as_ref()?.value();
        inputs.iter().find(|other| other.name == name)
    };
    // Each input waits for one other at most: after so many steps it has come round, or never does.
    std::iter::successors(next(input), |&at| next(at)).take(inputs.len()).any(|at| at.name == input.name)
}

/// The output that a parameter is.
pub fn read_output(pattern: &Pat, ty: &Type) -> Result<Output> {
    let Pat::Ident(parameter) = pattern else {
        return Err(Error::new_spanned(pattern, "an output's parameter is named as its port, as in `out: &mut Output<V>`"));
    };
    let name = plain_name(&parameter.ident);
    // `_late` is `late`, unused.
    let name = name.trim_start_matches('_').to_owned();
    check_name(&name, &parameter.ident)?;
    Ok(Output { name, ty: ty.clone() })
}

/// The operator's outputs in the order of their ports: `out` is the first one, the others come as the methods name them.
pub fn collect_outputs<'a>(methods: impl Iterator<Item = &'a Method>) -> Result<Vec<&'a Output>> {
    let mut outputs: Vec<(&Output, &Ident)> = Vec::new();
    for method in methods {
        for output in &method.outputs {
            match outputs.iter().find(|(known, _)| known.name == output.name) {
                None => outputs.push((output, &method.name)),
                Some((known, _)) if same_type(&known.ty, &output.ty) => {}
                Some((_, first)) => {
                    let message =
                        format!("output `{}` has another type in `{first}`: it is one port, and written alike everywhere", output.name);
                    return Err(Error::new_spanned(&output.ty, message));
                }
            }
        }
    }
    let mut outputs: Vec<_> = outputs.into_iter().map(|(output, _)| output).collect();
    outputs.sort_by_key(|output| output.name != "out");
    Ok(outputs)
}

fn same_type(one: &Type, other: &Type) -> bool {
    one.to_token_stream().to_string() == other.to_token_stream().to_string()
}
