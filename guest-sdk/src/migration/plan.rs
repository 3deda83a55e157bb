//! [`Plan`]: how bytes of one structure become bytes of another that differs in added optional fields and in the order of fields only;
//! made once by walking both trees, so that values are rewritten without looking at either.

use crate::schema::{Field, Id, Node, Tree};

/// How bytes of one structure become bytes of another.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) first: usize,
}

/// What is to be done with a part. Parts of it are told by the places of their steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes stay.
    Fixed(usize),
    /// A number of variable length stays, of so many bytes at most.
    Number(usize),
    /// A length and as many bytes stay.
    Bytes,
    /// A byte that says whether there is a value, and the value.
    Option(usize),
    /// A length and as many elements.
    List(usize),
    /// A length and as many keys with a value each.
    Map(usize, usize),
    /// So many elements.
    Array(usize, u64),
    /// Parts, one after the other.
    Parts(Vec<usize>),
    /// Fields in their old order; and for each field in the new order its place in the old one, none if it is new.
    Fields(Vec<usize>, Vec<Option<usize>>),
    /// The number of a variant, and what it holds.
    Enum(Vec<usize>),
}

/// The prefix of schemas that are a structure.
const POSTCARD: &str = "postcard:";

impl Plan {
    /// The plan from one schema to another.
    ///
    /// # Errors
    /// What stands in the way, with the field.
    pub(super) fn new(from: &str, to: &str) -> Result<Plan, String> {
        let structures = from.strip_prefix(POSTCARD).zip(to.strip_prefix(POSTCARD));
        let (from, to) = structures.ok_or_else(|| format!("{from} has become {to}"))?;
        let old = Tree::parse(from).map_err(|error| format!("the old schema can't be read: {error}"))?;
        let new = Tree::parse(to).map_err(|error| format!("the new schema can't be read: {error}"))?;
        let mut planner = Planner { old: &old, new: &new, steps: Vec::new(), known: Vec::new(), path: Vec::new() };
        let first = planner.step(old.root(), new.root())?;
        Ok(Plan { steps: planner.steps, first })
    }
}

struct Planner<'a, 't> {
    old: &'a Tree<'t>,
    new: &'a Tree<'t>,
    steps: Vec<Step>,
    /// For each step its pair of nodes, those under way among them: types may occur within themselves.
    known: Vec<(Id, Id)>,
    /// The fields and variants that lead to the part at hand.
    path: Vec<&'t str>,
}

impl<'t> Planner<'_, 't> {
    /// The place of the step from an old node to a new one.
    fn step(&mut self, old: Id, new: Id) -> Result<usize, String> {
        if let Some(place) = self.known.iter().position(|pair| *pair == (old, new)) {
            return Ok(place);
        }
        let place = self.steps.len();
        self.steps.push(Step::Fixed(0));
        self.known.push((old, new));
        self.steps[place] = match (self.old.node(old), self.new.node(new)) {
            (Node::Word(from), Node::Word(to)) if from == to => leaf(from).ok_or_else(|| format!("`{from}` is no type that is known"))?,
            (&Node::Option(from), &Node::Option(to)) => Step::Option(self.step(from, to)?),
            (&Node::List(from), &Node::List(to)) => Step::List(self.step(from, to)?),
            (&Node::Map(old_key, from), &Node::Map(new_key, to)) => Step::Map(self.step(old_key, new_key)?, self.step(from, to)?),
            (&Node::Array(from, old_length), &Node::Array(to, length)) if old_length == length => Step::Array(self.step(from, to)?, length),
            (Node::Tuple(from), Node::Tuple(to)) if from.len() == to.len() => {
                Step::Parts(from.iter().zip(to).map(|(&from, &to)| self.step(from, to)).collect::<Result<_, _>>()?)
            }
            (Node::Struct(from), Node::Struct(to)) => self.fields(from, to)?,
            (Node::Enum(from), Node::Enum(to)) => self.variants(from, to, (old, new))?,
            _ => return Err(self.changed(old, new)),
        };
        Ok(place)
    }

    fn fields(&mut self, from: &[Field<'t>], to: &[Field<'t>]) -> Result<Step, String> {
        let mut steps = Vec::new();
        for old in from {
            let new = to.iter().find(|new| new.name == old.name);
            let new = new.ok_or_else(|| format!("{} is missing", self.at(old.name)))?;
            steps.push(self.within(old, new)?);
        }
        let mut order = Vec::new();
        for new in to {
            let old = from.iter().position(|old| old.name == new.name);
            if old.is_none() && !matches!(self.new.node(new.ty), Node::Option(_)) {
                return Err(format!("{} was added and is {}", self.at(new.name), self.new.text(new.ty)));
            }
            order.push(old);
        }
        if order.iter().flatten().count() < from.len() {
            return Err(format!("a field is there twice in {{{}}}", from.iter().map(|field| field.name).collect::<Vec<_>>().join(",")));
        }
        Ok(Step::Fields(steps, order))
    }

    fn variants(&mut self, from: &[Field<'t>], to: &[Field<'t>], (old, new): (Id, Id)) -> Result<Step, String> {
        if !from.iter().map(|variant| variant.name).eq(to.iter().map(|variant| variant.name)) {
            return Err(self.changed(old, new));
        }
        Ok(Step::Enum(from.iter().zip(to).map(|(old, new)| self.within(old, new)).collect::<Result<_, _>>()?))
    }

    /// The step of a field or variant.
    fn within(&mut self, old: &Field<'t>, new: &Field<'t>) -> Result<usize, String> {
        self.path.push(old.name);
        let step = self.step(old.ty, new.ty)?;
        self.path.pop();
        Ok(step)
    }

    /// A field below the part at hand.
    fn at(&self, name: &str) -> String {
        let path: String = self.path.iter().flat_map(|name| [name, "."]).collect();
        format!("field `{path}{name}`")
    }

    fn changed(&self, old: Id, new: Id) -> String {
        let (from, to) = (self.old.text(old), self.new.text(new));
        match self.path.split_last() {
            None => format!("{from} has become {to}"),
            Some(_) => format!("field `{}` was {from} and is {to}", self.path.join(".")),
        }
    }
}

/// What postcard makes of a type without parts.
fn leaf(word: &str) -> Option<Step> {
    // Seven bits to a byte.
    let number = |bits: usize| Step::Number(bits.div_ceil(7));
    Some(match word {
        "unit" => Step::Fixed(0),
        "bool" | "u8" | "i8" => Step::Fixed(1),
        "f32" => Step::Fixed(4),
        "f64" => Step::Fixed(8),
        "u16" | "i16" => number(16),
        "u32" | "i32" => number(32),
        "u64" | "i64" => number(64),
        "u128" | "i128" => number(128),
        "text" | "bytes" | "char" => Step::Bytes,
        _ => return None,
    })
}
