//! What the macros refuse, and how they say so.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, ItemImpl, ItemStruct, parse2};

use crate::{fields, methods, schema};

fn fields_error(arguments: TokenStream, item: TokenStream) -> String {
    fields::expand(arguments, parse2::<ItemStruct>(item).unwrap()).unwrap_err().to_string()
}

fn methods_error(item: TokenStream) -> String {
    methods::expand(TokenStream::new(), parse2::<ItemImpl>(item).unwrap()).unwrap_err().to_string()
}

fn schema_error(item: TokenStream) -> String {
    schema::expand(parse2::<DeriveInput>(item).unwrap()).unwrap_err().to_string()
}

#[test]
fn structs_that_are_no_operators_are_refused() {
    let none = TokenStream::new;
    let cases = [
        (
            none(),
            quote!(
                struct A {
                    n: ValueState<u64>,
                }
            ),
            "state is kept per key: say which with `#[operator(key = …)]` on the struct",
        ),
        (
            none(),
            quote!(
                struct A<T> {
                    n: T,
                }
            ),
            "an operator can't be generic: a component holds one",
        ),
        (
            none(),
            quote!(
                struct A(u64);
            ),
            "an operator's fields need names",
        ),
        (
            quote!(kee = String),
            quote!(
                struct A;
            ),
            "`#[operator]` on a struct takes `key`, `name` and `version`",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(version = 0)]
                    n: ValueState<u64>,
                }
            ),
            "versions begin with 1",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(versoin = 1)]
                    n: ValueState<u64>,
                }
            ),
            "`#[state]` takes `name`, `version`, `migrate`, `ttl` and `ttl_from`",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(migrate(2 => from_v2, 1 => from_v1), version = 2)]
                    n: ValueState<u64>,
                }
            ),
            "2 is the state's own version: raise it with `version = 3`",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(version = 3, migrate(1 => from_v1, 1 => from_v2))]
                    n: ValueState<u64>,
                }
            ),
            "versions begin with 1, and each has one migration",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(version = 3, migrate(1, from_v1))]
                    n: ValueState<u64>,
                }
            ),
            "expected `=>`",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(version = 2)]
                    n: u64,
                }
            ),
            "`#[state]` goes on a field of one of the types ValueState, ListState, MapState, ReducingState, AggregatingState, OperatorListState, UnionListState, BroadcastState",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(ttl = "soon")]
                    n: ValueState<u64>,
                }
            ),
            "no duration, such as \"10m\" or \"1h 30m\": expected number at 0",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(ttl = "1ms 1ns")]
                    n: ValueState<u64>,
                }
            ),
            "a time to live is a whole number of milliseconds, at least one",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(ttl = "1s", ttl_from = "birth")]
                    n: MapState<u64, u64>,
                }
            ),
            "`ttl_from` is \"write\" or \"access\"",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    #[state(ttl_from = "access")]
                    n: AggregatingState<Mean>,
                }
            ),
            "`ttl_from` means nothing without `ttl`",
        ),
        (
            none(),
            quote!(
                struct A {
                    #[state(ttl = "1s")]
                    n: OperatorListState<u64>,
                }
            ),
            "only state that is kept per key has a time to live",
        ),
        (
            quote!(key = u8),
            quote!(
                struct A {
                    n: ValueState<u64>,
                    #[state(name = "n")]
                    m: sdk::ListState<u64>,
                }
            ),
            "there are two states `n`",
        ),
    ];
    for (arguments, item, message) in cases {
        assert_eq!(fields_error(arguments, item), message);
    }
}

#[test]
fn methods_that_do_not_fit_their_marks_are_refused() {
    let cases = [
        (quote!(impl A {}), "an operator needs an input: a method marked `#[input]`"),
        (quote!(impl A { #[open] fn open(&mut self) -> Result<()> {} }), "an operator needs an input: a method marked `#[input]`"),
        (quote!(impl T for A { #[input] fn a(&mut self, a: u8) {} }), "`#[operator]` goes on the operator's own `impl`, not on a trait's"),
        (quote!(impl A { #[input] fn a(&mut self) {} }), "an input takes the record's value: `fn name(&mut self, value: V, …)`"),
        (quote!(impl A { #[input] fn a(&self, a: u8) {} }), "a marked method begins with `&mut self`"),
        (quote!(impl A { #[input] async fn a(&mut self, a: u8) {} }), "operators are synchronous"),
        (quote!(impl A { #[input] #[open] fn a(&mut self, a: u8) {} }), "a method has one mark"),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8, out: &mut Output<u8>, meta: &Meta) {} }),
            "`#[input]` takes `&mut self` and a value, and if wanted `meta: &Meta<K>` and outputs as `out: &mut Output<V>`, in this order",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[open] fn open(&mut self, c: &Context, out: &mut Output<u8>) {} }),
            "`#[open]` takes `&mut self` and `context: &Context`",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: &Flight) {} }),
            "only `&str` and `&[u8]` are borrowed from the batch: take other values themselves",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[finish] fn b(&mut self) {} #[finish] fn c(&mut self) {} }),
            "`b` has this mark already",
        ),
    ];
    for (item, message) in cases {
        assert_eq!(methods_error(item), message);
    }
}

#[test]
fn ports_that_do_not_fit_each_other_are_refused() {
    let cases = [
        (
            quote!(impl A { #[input(keyed)] fn a(&mut self, a: u8) {} }),
            "`#[input]` takes `name = \"…\"`, `broadcast` and `waits_for = \"…\"`",
        ),
        (
            quote!(impl A { #[input(name = "a.b")] fn a(&mut self, a: u8) {} }),
            "`a.b` can't name a port: names consist of letters from a to z, digits, `-` and `_`",
        ),
        (
            quote!(impl A { #[input] fn flüge(&mut self, a: u8) {} }),
            "`flüge` can't name a port: names consist of letters from a to z, digits, `-` and `_`",
        ),
        (quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[input(name = "a")] fn b(&mut self, b: u8) {} }), "there are two inputs `a`"),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[input(waits_for = "c")] fn b(&mut self, b: u8) {} }),
            "there is no input `c` that could be waited for",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[input(waits_for = "a")] fn b(&mut self, b: u8) {} }),
            "only broadcast inputs can be waited for, and `a` is not marked `#[input(broadcast)]`",
        ),
        (
            quote!(impl A {
                #[input] fn c(&mut self, c: u8) {}
                #[input(broadcast, waits_for = "b")] fn a(&mut self, a: u8) {}
                #[input(broadcast, waits_for = "a")] fn b(&mut self, b: u8) {}
            }),
            "`a` would wait for itself for ever",
        ),
        (
            quote!(impl A { #[input(broadcast)] fn a(&mut self, a: u8, meta: &Meta<String>) {} }),
            "a record of a broadcast input has no key: take `meta: &Meta`",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[input] fn b(&mut self, b: &Flight) {} }),
            "only `&str` and `&[u8]` are borrowed from the batch: take other values themselves",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8, _: &mut Output<u8>) {} }),
            "an output's parameter is named as its port, as in `out: &mut Output<V>`",
        ),
        (
            quote!(impl A {
                #[input] fn a(&mut self, a: u8, out: &mut Output<u8>, _late: &mut Output<u8>) {}
                #[finish] fn b(&mut self, late: &mut KeyedOutput<u8, u8>) {}
            }),
            "output `late` has another type in `a`: it is one port, and written alike everywhere",
        ),
        (
            quote!(impl A { #[input] fn a(&mut self, a: u8, out: &mut Output<u8>, _out: &mut Output<u8>) {} }),
            "output `out` is there twice in one method; a `_` at the beginning makes no other port",
        ),
        (quote!(impl A { #[input] fn a(&mut self, a: u8) {} #[finish(late)] fn b(&mut self) {} }), "unexpected token in attribute"),
    ];
    for (item, message) in cases {
        assert_eq!(methods_error(item), message);
    }
}

#[test]
fn attributes_of_serde_that_change_the_layout_are_refused() {
    let by_place = "what is written by place and not by name can't leave a field out; `skip` leaves it out always";
    let not_back = "postcard can't read back what it makes";
    let unknown = "it changes how the value is laid out, and the schema would not say how";
    let cases = [
        (
            quote!(
                struct A {
                    #[serde(flatten)]
                    b: B,
                }
            ),
            "flatten",
            not_back,
        ),
        (
            quote!(
                #[serde(tag = "t")]
                enum A {
                    B { c: u8 },
                }
            ),
            "tag",
            not_back,
        ),
        (
            quote!(
                #[serde(untagged)]
                enum A {
                    B(u8),
                }
            ),
            "untagged",
            not_back,
        ),
        (
            quote!(
                struct A {
                    #[serde(skip_serializing_if = "Option::is_none")]
                    b: Option<u8>,
                }
            ),
            "skip_serializing_if",
            by_place,
        ),
        (
            quote!(
                enum A {
                    B {
                        #[serde(skip_deserializing)]
                        c: u8,
                    },
                }
            ),
            "skip_deserializing",
            by_place,
        ),
        (
            quote!(
                struct A {
                    #[serde(rename = "c", with = "hex")]
                    b: u8,
                }
            ),
            "with",
            unknown,
        ),
        (
            quote!(
                #[serde(into = "B")]
                struct A(u8);
            ),
            "into",
            unknown,
        ),
    ];
    for (item, name, why) in cases {
        assert_eq!(schema_error(item), format!("`serde({name})` can't be used in records and state: {why}"));
    }
    for name in ["", "a:b", "c)"] {
        let error = schema_error(quote!(
            enum A {
                #[serde(rename = #name)]
                B,
            }
        ));
        assert_eq!(error, "a name in records and state is not empty, and has none of ( ) { } < > , : ^");
    }
    let harmless = quote! {
        #[serde(rename_all = "kebab-case", bound(serialize = "T: Copy", deserialize = "T: Copy"), deny_unknown_fields)]
        struct A<T> { #[serde(default = "f", alias = "c", rename = "d")] b: T, #[serde(skip)] e: u8 }
    };
    assert!(schema::expand(parse2(harmless).unwrap()).is_ok());
}
