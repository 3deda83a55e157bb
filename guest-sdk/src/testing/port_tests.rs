//! Several inputs and outputs, and metrics.

use super::*;
use crate::bindings::descriptor::Port;
use crate::operator::describe;
use crate::prelude::*;

/// Counts what comes in and goes out, and tells of it on several outputs.
#[operator(key = String)]
struct Shop {
    stock: ReducingState<i64, Sum>,
    prices: BroadcastState<String, i64>,
}

#[operator]
impl Shop {
    #[input(name = "price-list", broadcast)]
    fn prices(&mut self, line: &str, meta: &Meta, receipts: &mut KeyedOutput<u8, String>) -> Result<()> {
        let Some((item, price)) = line.split_once('=') else { bail!("no price in {line:?}") };
        self.prices.insert(item, price.parse()?);
        receipts.emit(0, format_args!("{line} at {:?}", meta.time()));
        Ok(())
    }

    #[input]
    fn deliveries(&mut self, count: i64) -> Result<()> {
        self.stock.add(count);
        Ok(())
    }

    /// Fails where the stock falls short, after everything else.
    #[input(waits_for = "price-list")]
    fn sales(
        &mut self,
        (count, customer): (i64, u8),
        meta: &Meta<String>,
        receipts: &mut KeyedOutput<u8, String>,
        out: &mut Output<i64>,
        _spare: &mut Output<()>,
    ) -> Result<()> {
        let item = meta.key();
        metrics::count("sales", 1);
        metrics::gauge("last", count as f64);
        self.stock.add(-count);
        let left = self.stock.get().unwrap_or(0);
        receipts.emit(customer, format_args!("{count} {item} for {}", count * self.prices.get(item).unwrap_or(1)));
        out.emit(left);
        match left {
            i64::MIN..=-100 => panic!("robbed"),
            -99..0 => bail!("{item}: {left}"),
            _ => Ok(()),
        }
    }

    #[finish]
    fn rest(&mut self, meta: &Meta<String>, rest: &mut Output<String>) -> Result<()> {
        metrics::count("rest", 1);
        rest.emit(format_args!("{} {}", self.stock.get().unwrap_or(0), meta.key()));
        if meta.key() == "unfinishable" { bail!("no end in sight") } else { Ok(()) }
    }
}

fn shop() -> Harness<Shop> {
    let mut shop = Harness::<Shop>::new();
    shop.process([("a", 10), ("b", 3)].map(|(item, count)| keyed(item, count))).unwrap();
    shop.broadcast::<String>("price-list", [value("b=7")]).unwrap();
    shop
}

fn sale(item: &str, count: i64, customer: u8) -> Record<&str, (i64, u8)> {
    keyed(item, (count, customer))
}

#[test]
fn the_descriptor_tells_of_every_port() {
    let shop = describe::<Shop>();
    let told = |ports: &[Port]| -> Vec<String> {
        let told = |port: &Port| format!("{} {} {} {} {:?}", port.name, port.partitioning, port.key_schema, port.value_schema, port.more);
        ports.iter().map(told).collect()
    };
    let inputs = [
        "price-list broadcast  text []",
        "deliveries keyed text postcard:i64 []",
        r#"sales keyed text postcard:(i64,u8) [("waits-for", "price-list")]"#,
    ];
    assert_eq!(told(&shop.inputs), inputs);
    let outputs =
        ["out keyed text postcard:i64 []", "receipts keyed u8 text []", "spare keyed text postcard:unit []", "rest keyed text text []"];
    assert_eq!(told(&shop.outputs), outputs, "`out` first, then as the methods name them");
}

#[test]
fn inputs_share_the_state_and_a_rejected_record_leaves_nothing_on_any_output() {
    for size in [1, 2, 10] {
        let mut shop = shop();
        let sales = [sale("a", 4, 1), sale("b", 5, 2), sale("a", 7, 3), sale("b", 2, 4)];
        let (mut out, mut receipts, mut rejected) = (Vec::new(), Vec::new(), 0);
        for sales in sales.chunks(size) {
            let result = shop.process_on::<(i64, u8)>("sales", sales.iter().cloned()).unwrap();
            out.extend(result.pairs());
            receipts.extend(result.side::<u8, String>("receipts"));
            rejected += result.rejected.len();
            assert_eq!(result.side::<String, ()>("spare"), []);
        }
        assert_eq!(out, [("a".to_owned(), 6), ("b".to_owned(), 1)], "in batches of {size}");
        assert_eq!(receipts, [keyed(1, "4 a for 4".to_owned()), keyed(4, "2 b for 14".to_owned())]);
        assert_eq!((rejected, shop.counter("sales"), shop.gauge("last")), (2, 2, Some(2.0)));
        let rest = shop.finish().unwrap().side::<String, String>("rest");
        assert_eq!(rest.into_iter().map(|record| record.value).collect::<Vec<_>>(), ["6 a", "1 b"]);
        assert_eq!(shop.counter("rest"), 2);
    }
}

#[test]
fn a_broadcast_input_has_times_but_no_key() {
    let mut shop = shop();
    let result = shop.broadcast::<String>("price-list", [value("a=2").at(5), value("c=4").at(6)]).unwrap();
    let receipts = [(5, "a=2 at Some(5)"), (6, "c=4 at Some(6)")].map(|(time, text)| keyed(0, text.to_owned()).at(time));
    assert_eq!(result.side::<u8, String>("receipts"), receipts);
    let failure = shop.broadcast::<String>("price-list", [value("a=9"), value("d")]).unwrap_err();
    assert_eq!(failure, Failure::Error("record 1 on broadcast input `price-list`: no price in \"d\"".into()));
    assert_eq!(shop.broadcast_state::<String, i64>("prices"), [("a".into(), 2), ("b".into(), 7), ("c".into(), 4)]);
}

#[test]
fn a_call_that_fails_has_counted_and_sent_nothing() {
    let mut shop = shop();
    shop.process_on::<(i64, u8)>("sales", [sale("a", 1, 1), sale("b", 200, 1)]).unwrap_err();
    assert_eq!((shop.counter("sales"), shop.gauge("last")), (0, None));
    shop.process([keyed("unfinishable", 1)]).unwrap();
    shop.finish().unwrap_err();
    assert_eq!(shop.counter("rest"), 0);
    let result = shop.process_on::<(i64, u8)>("sales", [sale("a", 1, 1)]).unwrap();
    assert_eq!((result.values(), result.side::<u8, String>("receipts").len(), shop.counter("sales")), (vec![9], 1, 1));
}

#[test]
fn a_call_tells_each_metric_once_and_only_what_has_changed() {
    let mut shop = shop();
    shop.process_on::<(i64, u8)>("sales", (0..5).map(|_| sale("a", 1, 1))).unwrap();
    shop.take_calls();
    shop.process_on::<(i64, u8)>("sales", [sale("a", 1, 1), sale("a", 1, 1)]).unwrap();
    let told: Vec<_> = shop.take_calls().into_iter().filter(|call| ["count", "gauge"].contains(call)).collect();
    assert_eq!(told, ["count", "gauge"]);
    shop.process([keyed("a", 1)]).unwrap();
    assert_eq!(shop.take_calls(), ["get", "put"]);
}

#[test]
fn ports_are_asked_for_by_name_and_type() {
    let refuses = |ask: fn(&mut Harness<Shop>)| {
        let asked = std::panic::catch_unwind(|| ask(&mut shop()));
        *asked.unwrap_err().downcast::<String>().unwrap()
    };
    assert_eq!(
        refuses(|shop| drop(shop.process_on::<i64>("returns", [keyed("a", 1)]))),
        "there is no input `returns`; there are: price-list, deliveries, sales"
    );
    assert_eq!(
        refuses(|shop| drop(shop.process_on::<String>("price-list", [keyed("a", "a=1")]))),
        "`price-list` is a broadcast input: use `broadcast`"
    );
    assert!(refuses(|shop| drop(shop.process_on::<u8>("deliveries", [keyed("a", 1)]))).contains("takes other values than `u8`"));
    let side = |ask: fn(Processed<String, i64>)| {
        let asked = std::panic::catch_unwind(|| ask(shop().process([keyed("a", 1)]).unwrap()));
        *asked.unwrap_err().downcast::<String>().unwrap()
    };
    assert_eq!(
        side(|result| drop(result.side::<String, i64>("out"))),
        "there is no output `out` beside the first; there are: receipts, spare, rest"
    );
    assert!(side(|result| drop(result.side::<String, String>("receipts"))).contains("carries other keys or values"));
}

#[test]
fn an_operator_without_keys_has_ports_too() {
    #[operator]
    struct Route {
        evens: BroadcastState<u8, ()>,
    }

    #[operator]
    impl Route {
        #[input(broadcast)]
        fn evens(&mut self, even: u8, even_out: &mut Output<u8>) -> Result<()> {
            self.evens.insert(even, ());
            even_out.emit(even);
            Ok(())
        }

        #[input(waits_for = "evens")]
        fn numbers(&mut self, number: u8, odd: &mut Output<u8>, even_out: &mut Output<u8>) -> Result<()> {
            if self.evens.contains(number) {
                even_out.emit(number)
            } else {
                odd.emit(number)
            }
            Ok(())
        }
    }

    let mut route = Harness::<Route>::new();
    assert_eq!(route.broadcast::<u8>("evens", [value(0), value(2)]).unwrap().values(), [0, 2], "the first output is the one named first");
    let result = route.process((0..4).map(value)).unwrap();
    assert_eq!((result.values(), result.side::<crate::NoKey, u8>("odd")), (vec![0, 2], vec![value(1), value(3)]));
    let partitionings: Vec<_> = describe::<Route>().inputs.into_iter().map(|port| port.partitioning).collect();
    assert_eq!(partitionings, ["broadcast", "any"]);
}
