//! `iter`

use mgmt_funcs_derive::function;
use mgmt_value::{List, Type, Value};

use crate::Failure;
use crate::declare::module;

module! {
    path: "iter",
    doc: "Lists through functions.",
    functions: [map, filter, reduce, zip, flatten, range],
}

/// The most items that one range may have. A longer list would not fit into memory.
const LONGEST: u64 = 1 << 24;

/// Applies a function to each item, in order.
///
/// ```mcl
/// iter.map([1, 2,], func($x) { $x + 1 }) == [2, 3,]
/// ```
#[function(graph = Map, signature = "func(inputs []?1, function func(?1) ?2) []?2")]
fn map() {}

/// Keeps the items for which a function is true, in order.
///
/// ```mcl
/// iter.filter([1, 2, 3,], func($x) { $x > 1 }) == [2, 3,]
/// ```
#[function(graph = Filter, signature = "func(inputs []?1, function func(?1) bool) []?1")]
fn filter() {}

/// Combines all items into one, from the left: the function gets what has been combined so far and the next item.
///
/// Without a first value an empty list is a fatal error; with one, that is the result.
///
/// ```mcl
/// iter.reduce([1, 2, 3,], func($x, $y) { $x + $y }) == 6
/// iter.reduce(10, [1, 2, 3,], func($x, $y) { $x + $y }) == 16
/// ```
#[function(
    graph = Reduce,
    signature = "func(inputs []?1, function func(?1, ?1) ?1) ?1 | func(initval ?1, inputs []?1, function func(?1, ?1) ?1) ?1"
)]
fn reduce() {}

/// Combines two lists item by item. The result is as long as the shorter one.
///
/// ```mcl
/// iter.zip([1, 2, 3,], [10, 20,], func($x, $y) { $x + $y }) == [11, 22,]
/// ```
#[function(graph = Zip, signature = "func(inputs1 []?1, inputs2 []?2, function func(?1, ?2) ?3) []?3")]
fn zip() {}

/// One list from the items of several.
///
/// ```mcl
/// iter.flatten([[1, 2,], [], [3,],]) == [1, 2, 3,]
/// ```
#[function(signature = "func(inputs [][]?1) []?1")]
fn flatten(inputs: &List) -> Result<Value, Failure> {
    let Type::List(element) = &inputs.element else {
        return Err(Failure::fatal(format!("expected a list of lists, found []{}", inputs.element)));
    };
    let mut items = Vec::new();
    for inner in &inputs.items {
        let Value::List(inner) = inner else {
            return Err(Failure::fatal(format!("expected a list, found {}", inner.ty())));
        };
        items.extend_from_slice(&inner.items);
    }
    Ok(Value::list((**element).clone(), items))
}

/// Numbers from a start (0) up to, but not including, a stop, by a step (1).
///
/// The arguments are the stop, or the start and the stop, or the start, the stop and the step. A negative step counts
/// down. Numbers never pass the end of what an int can hold; a step of zero is a fatal error, and so is a list of more
/// than 16777216 numbers.
///
/// ```mcl
/// iter.range(3) == [0, 1, 2,]
/// iter.range(1, 3) == [1, 2,]
/// iter.range(10, 0, -4) == [10, 6, 2,]
/// ```
#[function(signature = "func(int) []int | func(int, int) []int | func(int, int, int) []int")]
fn range(arguments: &[Value]) -> Result<Value, Failure> {
    let (start, stop, step) = match arguments {
        [Value::Int(stop)] => (0, *stop, 1),
        [Value::Int(start), Value::Int(stop)] => (*start, *stop, 1),
        [Value::Int(start), Value::Int(stop), Value::Int(step)] => (*start, *stop, *step),
        _ => return Err(Failure::fatal("expected one, two or three ints")),
    };
    if step == 0 {
        return Err(Failure::fatal("the step of a range can't be zero"));
    }
    let reaches = if step > 0 { start < stop } else { start > stop };
    let distance = if reaches { start.abs_diff(stop) } else { 0 };
    let count = distance.div_ceil(step.unsigned_abs());
    if count > LONGEST {
        return Err(Failure::fatal(format!("the range has {count} numbers, expected at most {LONGEST}")));
    }
    let mut items = Vec::with_capacity(count as usize);
    let mut next = Some(start);
    while let Some(number) = next.filter(|_| (items.len() as u64) < count) {
        items.push(Value::Int(number));
        next = number.checked_add(step);
    }
    Ok(Value::list(Type::Int, items))
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::{Type, Value};

    fn range(arguments: &[i64]) -> String {
        shown("iter.range", &arguments.iter().map(|number| Value::Int(*number)).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_are_half_open_in_both_directions() {
        assert_eq!(range(&[3]), "[0, 1, 2]");
        assert_eq!(range(&[0]), "[]");
        assert_eq!(range(&[-3]), "[]");
        assert_eq!(range(&[2, 5]), "[2, 3, 4]");
        assert_eq!(range(&[5, 2]), "[]");
        assert_eq!(range(&[0, 10, 4]), "[0, 4, 8]");
        assert_eq!(range(&[0, 8, 4]), "[0, 4]");
        assert_eq!(range(&[5, 0, -2]), "[5, 3, 1]");
        assert_eq!(range(&[0, 5, -1]), "[]");
        assert_eq!(range(&[i64::MAX - 1, i64::MAX, 2]), "[9223372036854775806]");
        assert_eq!(range(&[i64::MIN, i64::MAX, i64::MAX]), "[-9223372036854775808, -1, 9223372036854775806]");
        assert_eq!(range(&[1, 2, 0]), "F: the step of a range can't be zero");
        assert!(range(&[i64::MAX]).starts_with("F: the range has 9223372036854775807 numbers"));
    }

    #[test]
    fn flattening_takes_one_level_away() {
        let ints =
            |items: &[i64]| Value::list(Type::Int, items.iter().map(|item| Value::Int(*item)).collect());
        let nested = Value::list(Type::list(Type::Int), vec![ints(&[1]), ints(&[]), ints(&[2, 3])]);
        assert_eq!(shown("iter.flatten", &[nested]), "[1, 2, 3]");
        let empty =
            super::flatten(&mgmt_value::List { element: Type::list(Type::Str), items: vec![] }).unwrap();
        assert_eq!(empty.ty().to_string(), "[]str");
    }
}
