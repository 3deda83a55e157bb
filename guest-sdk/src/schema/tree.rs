//! [`Tree`]: a structure taken apart, to be walked. The text may be of another version of the operator, or damaged, so nothing is taken
//! for granted.

use std::fmt;
use std::ops::Range;

/// How deep brackets may nest.
const DEEPEST: usize = 100;

/// What names and words end before.
const SIGNS: [char; 9] = ['(', ')', '{', '}', '<', '>', ',', ':', '^'];

/// A node of a tree.
pub(crate) type Id = usize;

/// A structure taken apart. A type that occurs within itself is one node.
#[derive(Debug)]
pub(crate) struct Tree<'t> {
    text: &'t str,
    nodes: Vec<Node<'t>>,
    /// Where in the text each node stands.
    spans: Vec<Range<usize>>,
    root: Id,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node<'t> {
    /// A type without parts.
    Word(&'t str),
    /// `option<T>`.
    Option(Id),
    /// `list<T>`.
    List(Id),
    /// `map<K,V>`.
    Map(Id, Id),
    /// `array<T,N>`.
    Array(Id, u64),
    /// `(A,B)`.
    Tuple(Vec<Id>),
    /// `{a:A,b:B}`.
    Struct(Vec<Field<'t>>),
    /// `enum{…}`: variants; what a variant holds is a word `unit`, a tuple or a struct.
    Enum(Vec<Field<'t>>),
}

/// A field of a struct, or a variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field<'t> {
    /// Its name.
    pub(crate) name: &'t str,
    /// Its type.
    pub(crate) ty: Id,
}

/// Why a text is no structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unparsed {
    at: usize,
    expected: &'static str,
}

impl fmt::Display for Unparsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected {}", self.at, self.expected)
    }
}

impl<'t> Tree<'t> {
    /// The tree of a structure, as a schema has it after `postcard:`.
    ///
    /// # Errors
    /// Where the text is no structure.
    pub(crate) fn parse(text: &'t str) -> Result<Self, Unparsed> {
        let mut parser = Parser { text, at: 0, nodes: Vec::new(), spans: Vec::new(), open: Vec::new() };
        let root = parser.part()?;
        if parser.at < text.len() {
            return Err(parser.expected("the end"));
        }
        let Parser { nodes, spans, .. } = parser;
        Ok(Tree { text, nodes, spans, root })
    }

    /// The whole.
    pub(crate) fn root(&self) -> Id {
        self.root
    }

    /// What a node is.
    pub(crate) fn node(&self, id: Id) -> &Node<'t> {
        &self.nodes[id]
    }

    /// A node as it stands in the text.
    pub(crate) fn text(&self, id: Id) -> &'t str {
        match &self.text[self.spans[id].clone()] {
            "" => "unit",
            text => text,
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    nodes: Vec<Node<'t>>,
    spans: Vec<Range<usize>>,
    /// The nodes whose brackets are open, outermost first.
    open: Vec<Id>,
}

impl<'t> Parser<'t> {
    fn expected(&self, expected: &'static str) -> Unparsed {
        Unparsed { at: self.at, expected }
    }

    fn eat(&mut self, sign: char) -> bool {
        let found = self.text[self.at..].starts_with(sign);
        if found {
            self.at += sign.len_utf8();
        }
        found
    }

    fn need(&mut self, sign: char, expected: &'static str) -> Result<(), Unparsed> {
        if self.eat(sign) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// What comes before the next sign.
    fn word(&mut self, expected: &'static str) -> Result<&'t str, Unparsed> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(SIGNS).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.expected(expected));
        }
        self.at += word.len();
        Ok(word)
    }

    fn number(&mut self) -> Result<u64, Unparsed> {
        let unparsed = self.expected("a number");
        self.word("a number")?.parse().map_err(|_| unparsed)
    }

    fn part(&mut self) -> Result<Id, Unparsed> {
        let start = self.at;
        if self.eat('^') {
            return self.within_itself();
        }
        if self.eat('(') {
            return self.bracketed(start, |parser| parser.items(')', Parser::part).map(Node::Tuple));
        }
        if self.eat('{') {
            return self.bracketed(start, |parser| parser.items('}', Parser::field).map(Node::Struct));
        }
        let word = self.word("a type")?;
        if word == "enum" && self.eat('{') {
            return self.bracketed(start, |parser| parser.items('}', Parser::variant).map(Node::Enum));
        }
        if self.eat('<') {
            return self.bracketed(start, |parser| parser.wrapped(word));
        }
        Ok(self.leaf(Node::Word(word), start))
    }

    fn leaf(&mut self, node: Node<'t>, start: usize) -> Id {
        self.nodes.push(node);
        self.spans.push(start..self.at);
        self.nodes.len() - 1
    }

    /// A node whose bracket was just opened; `rest` reads on to behind its end.
    fn bracketed(&mut self, start: usize, rest: impl FnOnce(&mut Self) -> Result<Node<'t>, Unparsed>) -> Result<Id, Unparsed> {
        if self.open.len() == DEEPEST {
            return Err(self.expected("fewer brackets"));
        }
        // Its number is known before what it is, for what refers to it from inside.
        let id = self.leaf(Node::Word(""), start);
        self.open.push(id);
        self.nodes[id] = rest(self)?;
        self.open.pop();
        self.spans[id].end = self.at;
        Ok(id)
    }

    /// The node to which a caret refers.
    fn within_itself(&mut self) -> Result<Id, Unparsed> {
        let unparsed = self.expected("the number of an open bracket");
        let above = usize::try_from(self.number()?).ok();
        let place = above.filter(|&above| above > 0).and_then(|above| self.open.len().checked_sub(above));
        place.map(|place| self.open[place]).ok_or(unparsed)
    }

    /// Items between commas, and the bracket at their end.
    fn items<T>(&mut self, end: char, item: fn(&mut Self) -> Result<T, Unparsed>) -> Result<Vec<T>, Unparsed> {
        let mut items = Vec::new();
        while !self.eat(end) {
            if !items.is_empty() {
                self.need(',', "a comma or the end of the bracket")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn field(&mut self) -> Result<Field<'t>, Unparsed> {
        let name = self.word("a field")?;
        self.need(':', "a colon")?;
        Ok(Field { name, ty: self.part()? })
    }

    fn variant(&mut self) -> Result<Field<'t>, Unparsed> {
        let name = self.word("a variant")?;
        let holds_parts = self.text[self.at..].starts_with(['(', '{']);
        let ty = if holds_parts { self.part()? } else { self.leaf(Node::Word("unit"), self.at) };
        Ok(Field { name, ty })
    }

    fn wrapped(&mut self, name: &str) -> Result<Node<'t>, Unparsed> {
        let first = self.part()?;
        let node = match name {
            "option" => Node::Option(first),
            "list" => Node::List(first),
            "map" => {
                self.need(',', "a comma")?;
                Node::Map(first, self.part()?)
            }
            "array" => {
                self.need(',', "a comma")?;
                Node::Array(first, self.number()?)
            }
            _ => return Err(self.expected("no type in `<…>` but option, list, map and array")),
        };
        self.need('>', "the end of the bracket")?;
        Ok(node)
    }
}
