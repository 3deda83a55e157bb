//! Structures taken apart: those of types, and text that is none.

use std::collections::BTreeMap;

use super::tree::{Node, Tree};
use crate::record;
use crate::schema::Structure;

/// The tree as text again, by its nodes and not by their spans; a node within itself as a caret and how many nodes it is above.
fn told(tree: &Tree<'_>, id: usize, open: &mut Vec<usize>) -> String {
    if let Some(place) = open.iter().rposition(|&above| above == id) {
        return format!("^{}", open.len() - place);
    }
    open.push(id);
    let mut all = |ids: &[usize]| ids.iter().map(|&id| told(tree, id, open)).collect::<Vec<_>>();
    let text = match tree.node(id) {
        Node::Word(word) => (*word).to_owned(),
        &Node::Option(part) => format!("option<{}>", all(&[part])[0]),
        &Node::List(part) => format!("list<{}>", all(&[part])[0]),
        &Node::Map(key, value) => format!("map<{}>", all(&[key, value]).join(",")),
        &Node::Array(part, length) => format!("array<{},{length}>", all(&[part])[0]),
        Node::Tuple(parts) => format!("({})", all(parts).join(",")),
        Node::Struct(fields) => {
            let parts = fields.iter().map(|field| format!("{}:{}", field.name, all(&[field.ty])[0]));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Node::Enum(variants) => {
            let parts = variants.iter().map(|variant| match tree.node(variant.ty) {
                Node::Word(_) => variant.name.to_owned(),
                _ => format!("{}{}", variant.name, all(&[variant.ty])[0]),
            });
            format!("enum{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
    };
    open.pop();
    text
}

#[record]
enum Sum {
    Number(i64),
    Plus(Box<Sum>, Box<Sum>),
    Of { terms: BTreeMap<String, Sum>, parts: Option<Parts> },
}

#[record]
struct Parts(Vec<Part>);

#[record]
struct Part {
    sum: Option<Box<Sum>>,
    parts: Box<Parts>,
    r#type: [(u8, ()); 3],
    #[serde(rename = "größe")]
    size: f32,
}

#[test]
fn a_structure_is_told_again_by_its_tree() {
    let texts = [
        "u64",
        "unit",
        "option<list<map<text,(u8,bytes)>>>",
        "array<array<char,2>,18446744073709551615>",
        "{}",
        "()",
        "enum{}",
        "{enum:enum{enum,option(option<u8>),list{list:list<u8>}},größe:f32}",
        &Structure::of::<Sum>(),
        &Structure::of::<Parts>(),
    ];
    for text in texts {
        let tree = Tree::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(told(&tree, tree.root(), &mut Vec::new()), text);
        assert_eq!(tree.text(tree.root()), text);
    }
}

#[test]
fn what_is_no_structure_is_refused_and_where_is_told() {
    let deep = format!("{}u8{}", "option<".repeat(101), ">".repeat(101));
    let cases = [
        ("", "at byte 0: expected a type"),
        ("u64,", "at byte 3: expected the end"),
        ("{a}", "at byte 2: expected a colon"),
        ("{a:u8", "at byte 5: expected a comma or the end of the bracket"),
        ("{a:u8,}", "at byte 6: expected a field"),
        ("{:u8}", "at byte 1: expected a field"),
        ("(u8}", "at byte 3: expected a comma or the end of the bracket"),
        ("set<u8>", "at byte 6: expected no type in `<…>` but option, list, map and array"),
        ("map<u8>", "at byte 6: expected a comma"),
        ("array<u8,x>", "at byte 9: expected a number"),
        ("array<u8,18446744073709551616>", "at byte 9: expected a number"),
        ("option<u8,u8>", "at byte 9: expected the end of the bracket"),
        ("^1", "at byte 1: expected the number of an open bracket"),
        ("list<^0>", "at byte 6: expected the number of an open bracket"),
        ("list<^2>", "at byte 6: expected the number of an open bracket"),
        (&deep, "at byte 707: expected fewer brackets"),
    ];
    for (text, expected) in cases {
        assert_eq!(Tree::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    let whole = Structure::of::<Sum>();
    // Shorter ones are words.
    for end in ("enum{".len()..whole.len()).filter(|&end| whole.is_char_boundary(end)) {
        assert!(Tree::parse(&whole[..end]).is_err(), "{}", &whole[..end]);
    }
}
