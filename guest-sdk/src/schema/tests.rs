//! Structures as text.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;
use crate::{Json, record};

#[record]
struct Unit;

#[record]
struct Newtype(u64);

#[record]
struct Pair(u64, String);

#[record]
#[allow(dead_code, reason = "only its structure matters")]
struct Flight<'a> {
    carrier: &'a str,
    r#type: Option<Newtype>,
    #[serde(rename = "dest")]
    destination: Vec<u8>,
    #[serde(skip)]
    cache: Vec<String>,
}

#[record]
enum Event {
    Started,
    Landed(u64),
    Moved { from: Pair, to: (i8, bool) },
    Both(u8, u8),
}

#[record]
struct Tree<T> {
    value: T,
    children: Vec<Tree<T>>,
}

#[record]
struct Node {
    next: Option<Box<Link>>,
}

#[record]
struct Link {
    node: Node,
    #[serde(default, alias = "weight")]
    cost: f64,
}

#[test]
fn structures_show_names_and_types() {
    let structures = [
        (Structure::of::<Unit>(), "unit"),
        (Structure::of::<Newtype>(), "u64"),
        (Structure::of::<Pair>(), "(u64,text)"),
        (Structure::of::<Flight<'_>>(), "{carrier:text,type:option<u64>,dest:bytes}"),
        (Structure::of::<Event>(), "enum{Started,Landed(u64),Moved{from:(u64,text),to:(i8,bool)},Both(u8,u8)}"),
        (Structure::of::<HashMap<String, Vec<Option<char>>>>(), "map<text,list<option<char>>>"),
        (Structure::of::<BTreeMap<u8, HashSet<i128>>>(), "map<u8,list<i128>>"),
        (Structure::of::<[u16; 3]>(), "array<u16,3>"),
        (Structure::of::<Result<(), String>>(), "enum{Ok(unit),Err(text)}"),
        (Structure::of::<usize>(), "u64"),
    ];
    for (structure, expected) in structures {
        assert_eq!(structure, expected);
    }
}

#[record]
struct Forest(Vec<Forest>);

#[record]
enum Sum {
    Number(i64),
    Plus(Box<Sum>, Box<Sum>),
    Of { terms: BTreeMap<String, Sum> },
}

#[test]
fn types_within_themselves_end() {
    assert_eq!(Structure::of::<Tree<u8>>(), "{value:u8,children:list<^2>}");
    assert_eq!(Structure::of::<Node>(), "{next:option<{node:^3,cost:f64}>}");
    // A struct of one unnamed field is that field, and leaves no trace.
    assert_eq!(Structure::of::<Forest>(), "list<^1>");
    assert_eq!(Structure::of::<Sum>(), "enum{Number(i64),Plus(^2,^2),Of{terms:map<text,^3>}}");
}

#[test]
fn text_bytes_and_json_have_schemas_of_their_own_at_the_top_only() {
    let schemas = [
        (String::schema(), "text"),
        (<&str>::schema(), "text"),
        (Box::<str>::schema(), "text"),
        (Vec::<u8>::schema(), "bytes"),
        (<&[u8]>::schema(), "bytes"),
        (Json::<Event>::schema(), "json"),
        (<()>::schema(), "postcard:unit"),
        (u64::schema(), "postcard:u64"),
        (Vec::<u16>::schema(), "postcard:list<u16>"),
        (Option::<String>::schema(), "postcard:option<text>"),
        (<(String, Vec<u8>)>::schema(), "postcard:(text,bytes)"),
        (Unit::schema(), "postcard:unit"),
    ];
    for (schema, expected) in schemas {
        assert_eq!(schema, expected);
    }
}
